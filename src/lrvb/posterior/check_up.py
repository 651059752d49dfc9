"""A check-up of an answer: convergence, verdicts, priors, rows, in plain sentences, the worst first."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import LrvbError
from .answering import PriorQuestions, RowQuestions, answers_rows
from .verdicts import DOUBTFUL, NO, NOT_CHECKED, REPAIRED, TRUST
from .what_if import (
    DIFFERENT,
    RELIABLE,
    TELLING,
    beside,
    influence_table,
    of_prior,
    prior_table,
    robust_sds,
    verified,
)

if TYPE_CHECKING:
    from .posterior import Posterior

BAD, LOOK, GOOD, UNKNOWN = "problem", "look", "good", "not known"
_ORDER = (BAD, LOOK, UNKNOWN, GOOD)
_MARKS = {BAD: "✗", LOOK: "!", UNKNOWN: "?", GOOD: "✓"}
VERIFIED = 3  # hyperparameters, rows or levels that seem to decide, which are verified by refits
INFLUENTIAL = 0.5  # sds by which one row or level may move a mean before it is said


class Finding(NamedTuple):
    """How it is (`problem`, `look`, `good` or `not known`), what was looked at, and a sentence."""

    state: str
    what: str
    sentence: str


@dataclass(frozen=True)
class CheckUp:
    """The findings, the worst first; `ok` says that none is a problem. Printed, it is one page."""

    title: str
    findings: tuple[Finding, ...]

    @property
    def ok(self) -> bool:
        """Whether nothing is a problem."""
        return all(finding.state != BAD for finding in self.findings)

    def __repr__(self) -> str:
        width = max((len(finding.what) for finding in self.findings), default=0)
        lines = [f"  {_MARKS[f.state]} {f.what:<{width}}  {f.sentence}" for f in self.findings]
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{_MARKS[f.state]} {html.escape(f.state)}</td><td>{html.escape(f.what)}</td>"
            f"<td>{html.escape(f.sentence)}</td></tr>"
            for f in self.findings
        )
        return f"<p>{html.escape(self.title)}</p><table>{rows}</table>"


def check_up(title: str, findings: Iterable[Finding]) -> CheckUp:
    """The findings in order."""
    return CheckUp(title, tuple(sorted(findings, key=lambda f: _ORDER.index(f.state))))


def look_at(posterior: Posterior, sensitivity: PriorQuestions | None, by: Any) -> list[Finding]:
    """Everything that a posterior can say of itself."""
    names = posterior.names
    at = np.array([posterior.estimate.index[name] for name in names], dtype=int)
    found = [_convergence(posterior), *_verdicts(posterior)]
    if sensitivity is not None:
        found.append(_attempt("priors", lambda: _priors(sensitivity, names, at)))
    if answers_rows(sensitivity):
        found.append(_attempt("rows", lambda: _rows(sensitivity, names, at, by)))
        found.append(_attempt("robust sds", lambda: _robust(sensitivity, names, at, by)))
    return found


def _attempt(what: str, look: Callable[[], Finding]) -> Finding:
    """A finding, or why there is none."""
    try:
        return look()
    except LrvbError as error:
        return Finding(UNKNOWN, what, str(error))


def _convergence(posterior: Posterior) -> Finding:
    how = posterior.convergence
    if how.converged:
        return Finding(GOOD, "convergence", f"Converged in {how.steps}.")
    return Finding(BAD, "convergence", f"Not converged: {how.reason}.")


def _verdicts(posterior: Posterior) -> list[Finding]:
    """One finding for each verdict that was given."""
    found, table = [], posterior.verdicts
    states = {NO: BAD, DOUBTFUL: LOOK, REPAIRED: GOOD, TRUST: GOOD, NOT_CHECKED: UNKNOWN}
    for verdict, part in table.groupby("verdict", sort=False):
        few = ", ".join(part.index[:4]) + (" …" if len(part) > 4 else "")
        sentence = (
            f'{len(part)} of {len(table)} quantities: "{verdict}" ({few}). {part["why"].iloc[0]}'
        )
        found.append(Finding(states.get(str(verdict), LOOK), "verdicts", sentence.strip()))
    return found


def _priors(sensitivity: PriorQuestions, names: list[str], at: np.ndarray) -> Finding:
    """The plain step that moves a mean most; steps that seem to decide are verified by refits."""
    table = prior_table(sensitivity, names, at, 0)
    table = table[of_prior(table)]
    telling = table[table["change"].abs() > TELLING]
    if telling.empty:
        said = f"No plain step of a prior moves a mean by half an sd; {_moved(table.iloc[0])}."
        return Finding(GOOD, "priors", said)
    tried = list(dict.fromkeys(telling["hyperparameter"]))[:VERIFIED]
    try:
        by_refits = verified(sensitivity, table, dict(zip(names, at, strict=True)), tried)
    except LrvbError as error:
        said = f"A prior may decide: {_moved(table.iloc[0])} by first order. {error}"
        return Finding(LOOK, "priors", said)
    table = table.assign(verified=by_refits).dropna(subset="verified")
    worst = table.loc[table["verified"].abs().idxmax()]
    said = f"{_moved(worst)} by first order, {worst['verified']:+.2g} by {sensitivity.verifies}"
    if abs(worst["verified"]) > TELLING:
        return Finding(LOOK, "priors", f"A prior decides: {said}.")
    return Finding(GOOD, "priors", f"No plain step of a prior moves a mean by half an sd: {said}.")


def _moved(row: Any) -> str:
    return (
        f"{row['hyperparameter']} from {row['value']:.3g} to {row['value'] + row['step']:.3g} moves "
        f"the mean of {row['quantity']} by {row['change']:+.2g} sds"
    )


def _rows(sensitivity: RowQuestions, names: list[str], at: np.ndarray, by: Any) -> Finding:
    codes, levels = by
    table = influence_table(sensitivity, names, at, codes, levels, scaled=True, refits=VERIFIED)
    worst = table.abs().max(axis=1)
    label = worst.idxmax()
    quantity = table.loc[[label]].abs().max(axis=0).idxmax()
    what = "row" if codes is None else "level"
    said = f"without {what} {label} the mean of {quantity} moves by {worst.max():.2g} sds"
    if unknown := table.attrs.get("n_bad", 0):
        said += f" (of {unknown} it is not known well: their weights have k_hat above {RELIABLE:g})"
    count = int((worst > INFLUENTIAL).sum())
    if count:
        return Finding(
            LOOK, "rows", f"{count} of {len(worst)} {what}s move a mean by half an sd: {said}."
        )
    return Finding(GOOD, "rows", f"No {what} moves a mean by half an sd: {said}.")


def _robust(sensitivity: RowQuestions, names: list[str], at: np.ndarray, by: Any) -> Finding:
    """Larger sds are told first: they are where the posterior promises too much."""
    robust, sd = robust_sds(sensitivity, names, at, by[0]).to_numpy(), sensitivity.sd[at]
    larger = robust > DIFFERENT * sd
    if larger.any():
        said = beside(
            [n for n, far in zip(names, larger, strict=True) if far], robust[larger], sd[larger]
        )
        return Finding(LOOK, "robust sds", f"Rows vary more than the model says. {said}")
    said = beside(names, robust, sd)
    if (robust < sd / DIFFERENT).any():
        said = f"Rows vary less than the model says, or a prior tells more. {said}"
    return Finding(GOOD, "robust sds", said)
