"""A mixed model with its hyperparameters integrated out: all that is asked of it afterwards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.linalg import block_diag

from ....errors import LrvbError
from ....integrated.block.integration import integrate_block
from ....integrated.block.model import Block
from ....integrated.direct import integrate_gaussian
from ....integrated.effort import TooMuchWork
from ....integrated.gaussian import Gaussian
from ....integrated.inside import Effects, Evaluable, Inside
from ....integrated.integral import Integral
from ....integrated.integration import integrate_path, integrate_scattered
from ....integrated.matrix_free.integration import integrate_matrix_free
from ....integrated.matrix_free.model import MatrixFree
from ....integrated.mode import NoMode
from ....integrated.normal import Normal
from ....integrated.scattered import Scattered
from ....integrated.scattered_fixed import ScatteredFixed
from ....integrated.surrogate import NotSmooth
from ....numerics.memory import keep_freed
from ....posterior.estimate import Estimate
from ....posterior.weighted import WeightedDraws
from ..design.design import Design
from ..design.standardised import Standardisation
from ..partitions.scattered import ScatteredDesign
from ..priors.stated import MixedPriors, SpreadPrior
from .certificate import MixedCertificate, certify
from .mean_field import (
    correlated,
    dispersion_sds,
    given_hyperparameters,
    one_sd,
    residual_square,
)
from .quantities import Quantities, quantities, sd_name
from .statement import Statement, state

Progress = Callable[[int, int], None]

AT_ZERO = "Stated priors of correlated effects are of an intercept at x = 0: centre x if that is not meant."


@dataclass(frozen=True, eq=False)
class IntegratedFit:
    """The estimate and draws of all named quantities, and every level's effects.

    theta (n, d) are the draws that matter, with their weights; effects, mfvb_sds (levels, q) and
    cross (levels, q, a) are each term's, in the design's order.
    """

    design: Design
    standard: Standardisation
    statement: Statement
    integral: Integral
    theta: np.ndarray = field(repr=False)
    weights: np.ndarray = field(repr=False)
    estimate: Estimate
    weighted: WeightedDraws = field(repr=False)
    effects: list[Effects] = field(repr=False)
    mfvb_sds: list[np.ndarray] = field(repr=False)
    cross: list[np.ndarray] = field(repr=False)
    absent: dict[str, str] = field(repr=False)
    certificate: MixedCertificate


@np.errstate(over="ignore", invalid="ignore")  # far out, log densities are beyond all numbers
def integrate_model(
    design: Design,
    priors: MixedPriors,
    standard: Standardisation,
    progress: Progress | None = None,
    seed: int = 0,
) -> IntegratedFit:
    """The posterior of a design; `NoMode`, `TooMuchWork` or `NoExactSums` where there is no way to it."""
    keep_freed()
    statement = state(design, priors, standard)
    try:
        statement, integral = _integrated(statement, seed, progress)
    except (TooMuchWork, NoMode) as error:
        sums, apart = statement.inside, isinstance(design, ScatteredDesign)
        if apart and isinstance(sums, ScatteredFixed | Block):
            raise NotSmooth(str(error)) from error
        if isinstance(sums, Normal | Block):
            raise
        block = state(design, priors, standard, _clause(error))
        try:
            statement, integral = _integrated(block, seed, progress)
        except NoMode as none:  # of rows with several modes a Gaussian may have none
            if apart:
                raise NotSmooth(str(none)) from none
            if not isinstance(error, TooMuchWork):
                raise
            integral = integrate_path(sums, None, seed, progress, last=True)
    inside = statement.inside
    at = integral.weighted.heavy()
    theta = integral.theta[at]
    weights = integral.weighted.weights[at] / integral.weighted.weights[at].sum()
    beta, root = _beta(statement, standard, theta)
    within = root @ root.swapaxes(1, 2)
    residual = np.exp(theta[:, -1]) if isinstance(inside, Normal) else None
    outside = statement.outside(theta, beta, design, standard)
    bends = list(statement.smooth_sds(theta).T)
    found = quantities(design, priors, beta, statement.spreads(theta), residual, outside, bends)
    T = found.values
    effects, cross = _levels(statement, integral, at, theta, weights, T, standard)
    m = weights @ T
    Sigma = (T - m).T @ (weights[:, None] * (T - m))
    p = len(design.names)
    Sigma[:p, :p] += np.tensordot(weights, within, axes=1)
    beta_V, mfvb_sds = given_hyperparameters(statement, weights @ theta, integral.near)
    V = _mean_field(
        found,
        design,
        priors,
        statement,
        effects,
        standard.T @ beta_V @ standard.T.T,
        theta,
        weights,
        np.outer(m[:p], m[:p]) + Sigma[:p, :p],
        integral.near,
    )
    spread = np.diagonal(within, axis1=1, axis2=2)
    within_sds = np.hstack([spread, np.zeros((len(T), T.shape[1] - p))])
    why, joint = (inside.why, inside.joint) if isinstance(inside, Block) else ("", 0)
    off, unknown = 0.0, ""
    if isinstance(inside, MatrixFree | Block):
        off, unknown = inside.levels_error, inside.unknown
    certificate = certify(integral, at, T, within_sds, found.labels, why, unknown, off, joint)
    estimate = Estimate(found.blocks, m, V, Sigma, tuple(found.labels), tuple(found.supports))
    verdicts = tuple(certificate.verdict(label) for label in found.labels)
    own = root if isinstance(inside, Normal) else root[:, :0, :0]
    weighted = WeightedDraws(T, weights, own, verdicts)
    return IntegratedFit(
        design,
        standard,
        statement,
        replace(integral, near=None),
        theta,
        weights,
        estimate,
        weighted,
        effects,
        _in_design(statement, mfvb_sds),
        cross,
        found.absent,
        replace(certificate, estimate=estimate, weighted=weighted),
    )


def _integrated(
    statement: Statement, seed: int, progress: Progress | None
) -> tuple[Statement, Integral]:
    """Weighted draws of θ, and the statement whose θ it is: another where this has no mode."""
    try:
        integral = _draws(statement.inside, seed, progress)
        if isinstance(statement.inside, Scattered):
            assert integral.inside is not None
            statement = statement._replace(inside=integral.inside)
        return statement, integral
    except NoMode as error:
        for other in statement.others():
            try:
                return other, _draws(other.inside, seed, progress)
            except NoMode:
                continue
        if any(term.at_zero for term in statement.terms):
            raise NoMode(f"{error} {AT_ZERO}", **error.evidence) from error
        raise


def _draws(inside: Normal | Inside, seed: int, progress: Progress | None) -> Integral:
    """Weighted draws of θ, by the way that these sums ask for."""
    if isinstance(inside, MatrixFree):
        return integrate_matrix_free(inside, seed=seed, progress=progress)
    if isinstance(inside, Gaussian):
        return integrate_gaussian(inside, seed=seed, progress=progress)
    if isinstance(inside, Block):
        return integrate_block(inside, seed=seed, progress=progress)
    assert not isinstance(inside, Normal)
    if isinstance(inside, Scattered):
        return integrate_scattered(inside, seed, progress)
    return integrate_path(inside, seed=seed, progress=progress)


def _clause(error: LrvbError) -> str:
    """A sentence as a clause."""
    sentence = str(error)
    return sentence[:1].lower() + sentence[1:].rstrip(".")


def _in_design(statement: Statement, parts: tuple) -> list:
    """Parts in θ's order of terms, in the design's."""
    found = dict(zip(statement.order, parts, strict=True))
    return [found[t] for t in range(len(statement.terms))]


def _beta(
    statement: Statement, standard: Standardisation, theta: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """β on the user's scale at the draws (n, p), and a root (n, p, p) of its covariance given each.

    The root is taken where columns are centred: on the user's scale a column far from zero leaves no
    covariance that rounding has not made singular.
    """
    T, t, p = standard.T, standard.t, statement.p
    if isinstance(statement.inside, Normal):
        mean, covariance = statement.inside.beta(theta)
        return mean @ T.T + t, T @ np.linalg.cholesky(covariance)
    return theta[:, :p] @ T.T + t, np.zeros((len(theta), p, p))


def _levels(
    statement: Statement,
    integral: Integral,
    at: np.ndarray,
    theta: np.ndarray,
    weights: np.ndarray,
    T: np.ndarray,
    standard: Standardisation,
) -> tuple[list[Effects], list[np.ndarray]]:
    """Every level's effects, and their covariances with all quantities."""
    inside, p = statement.inside, statement.p
    if isinstance(inside, Normal):
        found = inside.moments(theta, weights, T[:, p:])
        effects = [
            Effects(*parts)
            for parts in zip(found.levels, found.levels_sd, found.squares, strict=True)
        ]
        cross = [
            np.concatenate([with_beta @ standard.T.T, with_values], axis=2)
            for with_beta, with_values in zip(found.with_beta, found.with_values, strict=True)
        ]
        return effects, cross
    values = np.zeros((len(integral.theta), T.shape[1]))
    values[at] = T
    outside = np.ones(len(values), dtype=bool)
    outside[at] = False
    values[outside] = weights @ T  # a millionth of the weight, at the mean
    moments = integral.moments(values)
    return _in_design(statement, moments.effects), _in_design(statement, moments.cross)


def _mean_field(
    found: Quantities,
    design: Design,
    priors: MixedPriors,
    statement: Statement,
    effects: list[Effects],
    beta_V: np.ndarray,
    theta: np.ndarray,
    weights: np.ndarray,
    squares: np.ndarray,
    near: Evaluable | None,
) -> np.ndarray:
    """V: β given E θ, and the mean-field factors of sds, correlations and precisions; squares are E ββᵀ."""
    sds: dict[str, float] = {}
    parts = [beta_V] if len(beta_V) else []
    for t, (term, prior, names) in enumerate(
        zip(design.terms, priors.terms, priors.coefficients, strict=True)
    ):
        core, square = statement.terms[t], effects[t].square
        if core.q == 1:
            assert isinstance(prior, SpreadPrior)
            sds |= _of_one(
                term.name, one_sd(prior.sds[0], core.levels, float(square[0, 0])), names[0]
            )
            continue
        w, spread = correlated(core, square)
        again = quantities(
            _only(design, t), _only_prior(priors, t), np.zeros((len(w), 0)), [spread], None
        )
        values = again.values
        deviations = np.sqrt(w @ (values - w @ values) ** 2)
        sds |= dict(zip(again.labels, deviations, strict=True))
    for part, (label, own) in zip(design.penalised, priors.smooths, strict=True):
        at, Q = part.places, np.eye(len(part.places)) if part.Q is None else part.Q
        sds[sd_name(label)] = one_sd(own, len(at), float((Q * squares[np.ix_(at, at)]).sum()))[0]
    if isinstance(statement.inside, Normal):
        assert priors.residual is not None
        left = residual_square(statement.inside, theta, weights)
        sds |= _of_one("residual", one_sd(priors.residual, design.total, left), "residual")
    sds |= dispersion_sds(statement, weights @ theta, near)
    rest = np.array([sds[label] for label in found.labels[len(beta_V) :]])
    return block_diag(*parts, np.diag(rest**2))


def _of_one(name: str, found: tuple[float, float, float], effect: str) -> dict[str, float]:
    """Sds of one sd, its precision and the logarithm, by name."""
    precision = f"precision[{name}]"
    return {sd_name(effect): found[0], precision: found[1], f"log({precision})": found[2]}


def _only(design: Design, t: int) -> Design:
    return replace(design, terms=[design.terms[t]], names=[], smooths=[], structured=[])


def _only_prior(priors: MixedPriors, t: int) -> MixedPriors:
    return replace(priors, terms=(priors.terms[t],), coefficients=(priors.coefficients[t],))
