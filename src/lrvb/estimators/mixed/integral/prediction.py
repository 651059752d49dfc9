"""Predictions of an integrated model: averages over its draws and over the nodes of its levels."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import NamedTuple

import numpy as np

from ....integrated.importance import resampled
from ....integrated.normal import Normal
from ....likelihoods import IDENTITY, Given, Likelihood
from ....likelihoods.dispersion import labels_of
from ....likelihoods.quantiles import nodes_quantile
from ..answers.prediction import LINK, Answer, Shares, fitted_rows
from ..design.design import NewRows
from .fit import IntegratedFit
from .parts import Parts, weighted_quantiles

ROWS = 2**11  # at a time
CELLS = 2**25  # rows × draws × nodes of all draws; fewer draws beyond
ENDS = 2**21  # rows × draws at which quantiles are found
NODES = 30.0  # what rows are taken to have at least, for choosing draws
WORK, FEWEST = 6e7, 128  # evaluations of the sums inside that one answer may cost, and draws it has
PLACES = np.array([-4.0, -1.0, 0.0, 1.0, 4.0])  # of η, at which a mean is compared with it
QUANTILES = (np.arange(64) + 0.5) / 64  # of η, over which the response is averaged


class Lot(NamedTuple):
    """η of m rows at some draws with weights (k,): nodes (k, m, K), P, and variances (k, m).

    variance is that of other new levels, own that of a row's own new effect, which is noise;
    `typical` are the same with new levels' means over all draws. noise (k,) are the response's own
    parameters by name, such as the residual's sd.
    """

    weights: np.ndarray
    eta: np.ndarray
    P: np.ndarray
    variance: np.ndarray
    own: np.ndarray
    typical: tuple[np.ndarray, np.ndarray]
    noise: dict[str, np.ndarray]


def answer(
    fit: IntegratedFit, rows: NewRows, given: Given, interval: float | None, kind: str
) -> Answer:
    """The prediction of rows, a group of them at a time: those whose levels are known alike."""
    parts = ["mean", "sd"] + (["lower", "upper"] if interval is not None else [])
    result = {part: np.empty(len(rows.X)) for part in parts}
    for at in _alike(rows):
        here = {name: part[at] if np.ndim(part) else part for name, part in given.items()}
        with np.errstate(all="ignore"):  # what is beyond all numbers is infinite
            found = _some(fit, rows, at, here, interval, kind)
        for part in parts:
            result[part][at] = getattr(found, part)
    return Answer(*(result[part] for part in parts))


def _alike(rows: NewRows) -> Iterator[np.ndarray]:
    """Places of rows whose levels are known alike, some at a time."""
    n = len(rows.X)
    known = np.column_stack([np.ones(n, dtype=bool), *(codes >= 0 for codes in rows.codes)])
    _, pattern = np.unique(known, axis=0, return_inverse=True)
    for value in np.unique(pattern):
        alike = np.flatnonzero(pattern.reshape(-1) == value)
        for start in range(0, len(alike), ROWS):
            yield alike[start : start + ROWS]


def _shares(fit: IntegratedFit, rows: NewRows, at: np.ndarray) -> np.ndarray:
    """P(y = k) of some rows of an ordinal response, averaged over draws and nodes, (m, K)."""
    family, total = fit.design.family, np.zeros((1, len(at)))
    for lot in _lots(fit, rows, at):
        noise = {name: part[:, None, None] for name, part in lot.noise.items()}
        v = np.broadcast_to((lot.variance + lot.own)[..., None], lot.eta.shape)
        p = family.probabilities(lot.eta, v, noise)
        total = total + (p * (lot.weights[:, None, None] * lot.P)).sum((1, 3))
    return total.T


def _some(
    fit: IntegratedFit,
    rows: NewRows,
    at: np.ndarray,
    given: Given,
    interval: float | None,
    kind: str,
) -> Answer:
    family, m = fit.design.family, len(at)
    link = IDENTITY if kind == LINK else family.link
    tall = {
        name: np.asarray(part)[..., None] if np.ndim(part) else part for name, part in given.items()
    }
    first, second = np.zeros(m), np.zeros(m)
    kept: list[tuple[Parts, np.ndarray, dict[str, np.ndarray]]] = []
    for lot in _lots(fit, rows, at, as_reported=kind == LINK):
        wP = lot.weights[:, None, None] * lot.P
        known = lot.variance, lot.own
        if not link.bounded:  # exp of a new level has no mean over sds with a long tail
            known = lot.typical
        v, own = (np.broadcast_to(part[..., None], lot.eta.shape) for part in known)
        noise = {name: part[:, None, None] for name, part in lot.noise.items()}
        if kind == "response":
            value, spread = family.averaged(lot.eta, v + own, {**tall, **noise})
            square = value**2 + spread
        else:
            moments = link.moments if kind == LINK else partial(family.mean_moments, given=noise)
            value, sd = moments(lot.eta, v, own)
            square = value**2 + sd**2
        first += (wP * value).sum((0, 2))
        second += (wP * square).sum((0, 2))
        if interval is None:
            continue
        extra = lot.variance
        if kind == "response":
            extra = extra + lot.own
            if family.quadratic:
                extra = extra + lot.noise["residual"][:, None] ** 2
        kept.append((_parts(lot, extra), lot.own, lot.noise))
    sd = np.sqrt(np.maximum(second - first**2, 0.0))
    if interval is None:
        return Answer(first, sd)
    ends = np.array([0.5 - interval / 2, 0.5 + interval / 2])
    parts = _joined([part for part, _, _ in kept])
    if kind != "response":
        own = parts.weights @ np.concatenate([part for _, part, _ in kept])
        noise = {name: np.concatenate([part[name] for *_, part in kept]) for name in kept[0][2]}
        found = parts.quantiles(ends) if kind == LINK else _on_link(family, parts, noise, ends)
        lower, upper = (link.averaged(end, own) for end in found.T)
        return Answer(first, sd, lower, upper)
    if family.quadratic:
        lower, upper = family.from_working(parts.quantiles(ends).T)
        return Answer(first, sd, lower, upper)
    if family.categorical:
        below = np.cumsum(_shares(fit, rows, at), axis=1)
        lower, upper = (1.0 + (below < end - 1e-12).sum(1) for end in ends)
        return Answer(first, sd, lower, upper)
    nodes = parts.quantiles(QUANTILES)
    labels = labels_of(fit.statement.parameters)
    drawn = fit.statement.dispersions(fit.theta)
    if drawn:  # each node of η meets one of the dispersion's quantiles, in a fixed disorder
        some = [_shuffled(_own_quantiles(fit.weights, part), j) for j, part in enumerate(drawn)]
        given = {**given, **dict(zip(labels, some, strict=True))}
    lower, upper = (nodes_quantile(family, nodes, end, given) for end in ends)
    return Answer(first, sd, lower, upper)


def _parts(lot: Lot, extra: np.ndarray) -> Parts:
    """η of every row given each draw: three moments from the nodes, and a variance beside them."""
    center = (lot.P * lot.eta).sum(2)
    if lot.eta.shape[2] == 1:
        return Parts(lot.weights, center, extra)
    away = lot.eta - center[:, :, None]
    square = lot.P * away * away
    return Parts(lot.weights, center, square.sum(2) + extra, (square * away).sum(2))


def _joined(lots: list[Parts]) -> Parts:
    """The mixture over all draws."""
    third = None
    if any(lot.third is not None for lot in lots):
        each = [np.zeros_like(lot.mean) if lot.third is None else lot.third for lot in lots]
        third = np.concatenate(each)
    return Parts(
        np.concatenate([lot.weights for lot in lots]),
        np.concatenate([lot.mean for lot in lots]),
        np.concatenate([lot.variance for lot in lots]),
        third,
    )


def _on_link(
    family: Likelihood, parts: Parts, noise: dict[str, np.ndarray], prob: np.ndarray
) -> np.ndarray:
    """Quantiles (m, k) of the link of a mean in which dispersions have a part."""
    each = {name: part[:, None] for name, part in noise.items()}
    moved = family.mean_on_link(PLACES, each) - PLACES
    if np.ptp(moved, axis=-1).max(initial=0.0) < 1e-9:  # η and a constant
        return parts._replace(mean=parts.mean + moved[..., :1]).quantiles(prob)
    eta, weights, at = parts.points()
    here = {name: part[at][:, None] for name, part in noise.items()}
    return weighted_quantiles(family.mean_on_link(eta, here), weights, prob)


def _lots(
    fit: IntegratedFit, rows: NewRows, at: np.ndarray, as_reported: bool = False
) -> Iterator[Lot]:
    """η of some rows, draw by draw: all that matter, or as many as are affordable.

    Thresholds that take the place of an intercept are those at the columns' means inside, and so is η; η
    `as_reported` is beside thresholds where predictors are zero.
    """
    statement, design = fit.statement, fit.design
    theta, w = fit.theta, fit.weights
    inside = statement.inside
    nodes = 1.0 if isinstance(inside, Normal) else max(NODES, inside.work / design.n)
    most = int(max(FEWEST, min(CELLS / (len(at) * nodes), ENDS / len(at))))
    X = fit.standard.inward(rows.X[at])
    if as_reported and not design.family.intercept:
        X = rows.X[at] / fit.standard.scale
    moved: float | np.ndarray = 0.0
    if not isinstance(inside, Normal):
        share = min(1.0, len(at) / max(1, inside.fewest))
        most = min(most, int(max(FEWEST, WORK / (share * inside.work))))
    if len(w) > most:
        chosen = resampled(w, most)
        theta, w = theta[chosen], np.full(most, 1 / most)
        moved = _moved(fit, rows, at, X, chosen)
    shift = fit.standard.shift + (0.0 if rows.offset is None else rows.offset[at])
    codes = [rows.codes[design.terms[t].factor][at].astype(np.int64) for t in statement.order]
    R = [rows.R[t][at] for t in statement.order]
    spreads = statement.spreads(theta)
    labels = labels_of(statement.parameters)
    typical = np.zeros(len(at)), np.zeros(len(at))
    for t, term in enumerate(design.terms):
        S = np.tensordot(w, spreads[t].covariance, axes=1)
        new = rows.codes[term.factor][at] < 0
        r = rows.R[t][at]
        typical[int(term.factor == design.observation)][:] += new * np.einsum(
            "mi,ij,mj->m", r, S, r
        )
    for found in inside.lines(theta, X, codes, R):
        own = np.zeros(found.extra.shape)
        for t, term in enumerate(design.terms):
            if term.factor == design.observation:
                new = rows.codes[term.factor][at] < 0
                own += np.where(new, (rows.R[t][at, 0] * spreads[t].sd[found.at, :1]) ** 2, 0.0)
        if design.family.quadratic:
            noise = {"residual": np.exp(theta[found.at, -1])}
        else:
            noise = dict(zip(labels, statement.dispersions(theta[found.at]), strict=True))
        eta = found.eta + np.reshape(shift + moved, (-1, 1))
        variance = np.maximum(found.extra - own, 0.0)
        usual = typical
        if isinstance(inside, Normal):  # what known coefficients have beside new levels
            for t, term in enumerate(design.terms):
                new = (rows.codes[term.factor][at] < 0) & (term.factor != design.observation)
                r = np.where(new[:, None], rows.R[t][at], 0.0)
                fresh = np.einsum("mi,nij,mj->nm", r, spreads[t].covariance[found.at], r)
                variance = np.maximum(variance - fresh, 0.0)
            usual = variance + typical[0], typical[1]
            variance = np.maximum(found.extra - own, 0.0)
        yield Lot(w[found.at], eta, found.P, variance, own, usual, noise)


def _moved(
    fit: IntegratedFit, rows: NewRows, at: np.ndarray, X: np.ndarray, chosen: np.ndarray
) -> np.ndarray:
    """What the mean of η over all draws has beyond that over those chosen, (m,)."""
    integral, statement, p = fit.integral, fit.statement, fit.statement.p
    if integral.sample is not None or statement.p == 0:
        return np.zeros(len(at))
    if integral.first is None or integral.inside is None:
        return np.zeros(len(at))
    beta = fit.weights @ fit.theta[:, :p] - fit.theta[chosen, :p].mean(0)
    first = integral.first[integral.weighted.heavy()]
    difference = integral.inside.expand((fit.weights @ first - first[chosen].mean(0))[:, None])
    moved = X @ beta
    for t, levels in zip(statement.order, difference, strict=True):
        codes = rows.codes[fit.design.terms[t].factor][at]
        known = codes >= 0
        part = levels[np.where(known, codes, 0), :, 0]
        moved = moved + known * (rows.R[t][at] * part).sum(1)
    return moved


def _own_quantiles(w: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Quantiles of weighted draws at `QUANTILES`."""
    order = np.argsort(values)
    return np.interp(QUANTILES, np.cumsum(w[order]) - w[order] / 2, values[order])


def _shuffled(values: np.ndarray, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).permutation(values)


class IntegratedAnswers(NamedTuple):
    """Predictions from draws."""

    fit: IntegratedFit

    def fitted(self, given: Given, interval: float | None, kind: str) -> Answer | Shares:
        """The rows of the fit."""
        return self.of(fitted_rows(self.fit.design), given, interval, kind)

    def of(self, rows: NewRows, given: Given, interval: float | None, kind: str) -> Answer | Shares:
        """Other rows."""
        if kind == "probability":
            shares = np.empty((len(rows.X), len(self.fit.design.categories)))
            for at in _alike(rows):
                shares[at] = _shares(self.fit, rows, at)
            return Shares(shares, self.fit.design.categories)
        return answer(self.fit, rows, given, interval, kind)
