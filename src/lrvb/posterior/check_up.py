"""A check-up of an answer: convergence, verdicts, priors, rows, in plain sentences, the worst first."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..errors import LrvbError
from .answering import PriorQuestions, RowQuestions, answers_rows
from .prior_steps import PROB, Asked, FittedStep, asked, fitted_step, plain_step_changes
from .verdicts import DOUBTFUL, NO, NOT_CHECKED, REPAIRED, TRUST
from .what_if import (
    DIFFERENT,
    RELIABLE,
    TELLING,
    beside,
    influence_table,
    of_prior,
    robust_sds,
)

if TYPE_CHECKING:
    from .posterior import Posterior

BAD, LOOK, GOOD, UNKNOWN = "problem", "look", "good", "not known"
_ORDER = (BAD, LOOK, UNKNOWN, GOOD)
_MARKS = {BAD: "✗", LOOK: "!", UNKNOWN: "?", GOOD: "✓"}
VERIFIED = 3  # steps of priors, rows or levels that seem to decide, which are verified by refits
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
    of = asked(posterior.estimate, posterior.names)
    names, at = posterior.names, of.at
    found = [_convergence(posterior), *_verdicts(posterior)]
    if sensitivity is not None:
        found.append(_attempt("priors", lambda: _priors(sensitivity, of)))
    if answers_rows(sensitivity):
        what = "rows" if by[0] is None else "levels"
        found.append(_attempt(what, lambda: _rows(sensitivity, names, at, by)))
        found.append(_attempt("robust sds", lambda: _robust(sensitivity, names, at, by)))
    else:
        found.append(_not_asked(posterior, "rows" if sensitivity is not None else "priors, rows"))
    return found


def _not_asked(posterior: Posterior, what: str) -> Finding:
    """Why a posterior says nothing of fewer rows, nor of another prior where it cannot say that either."""
    try:
        posterior._what_if()
    except LrvbError as error:
        return Finding(UNKNOWN, what, str(error))
    raise AssertionError("a posterior that answers for rows was not asked")  # pragma: no cover


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


def _priors(sensitivity: PriorQuestions, of: Asked) -> Finding:
    """The plain steps, either way, that move a mean most or take an interval over zero, by fits."""
    names = of.names
    steps = plain_step_changes(sensitivity, sensitivity.prior_changes(of.at), of)
    steps = [step for step in steps if of_prior(step.hyperparameter)]
    chosen = [step for step in steps if step.size > TELLING or step.over.any()]
    if not chosen:
        return Finding(GOOD, "priors", f"No plain step of a prior decides: {steps[0].said(names)}.")
    # the furthest, then those over zero: three fits at most
    chosen = [chosen[0], *sorted(chosen[1:], key=lambda step: not step.over.any())][:VERIFIED]
    found, trouble = [], ""
    for step in chosen:
        try:
            found.append(fitted_step(sensitivity, step, of))
        except LrvbError as error:
            trouble = trouble or f"{step.said(names)} as foretold. {error}"
    found.sort(key=lambda fitted: (not fitted.step.over.any(), -fitted.step.size))
    decides = [f for f in found if f.step.size > TELLING or f.step.over.any()]
    if decides:
        said = " Also: ".join(_step_said(f, names, sensitivity.verifies) for f in decides)
        return Finding(LOOK, "priors", f"A prior decides: {said}")
    if trouble:
        return Finding(LOOK, "priors", f"A prior may decide: {trouble}")
    said = f"{found[0].step.said(names)} by {sensitivity.verifies}"
    return Finding(GOOD, "priors", f"No plain step of a prior decides: {said}.")


def _step_said(fitted: FittedStep, names: Sequence[str], by: str) -> str:
    """A sentence on one step, with the interval that it takes over zero."""
    step = fitted.step
    said = f"{step.said(names)} by {by}"
    if not step.over.any():
        return f"{said}."
    k, most = step.worst, step.furthest
    if step.size > TELLING and most != k:
        said += f" (and that of {names[most]} by {step.change[most]:+.2g})"
    before, after = (
        f"{low:.3g} to {high:.3g}" for low, high in (fitted.before[:, k], fitted.after[:, k])
    )
    holds = (
        "then holds zero" if fitted.after[0, k] < 0 < fitted.after[1, k] else "holds zero no more"
    )
    return f"{said}, and its {PROB:.0%} interval {holds}: {after} (was {before})."


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
            LOOK,
            f"{what}s",
            f"{count} of {len(worst)} {what}s move{'s' if count == 1 else ''} a mean by half an sd: {said}.",
        )
    return Finding(GOOD, f"{what}s", f"No {what} moves a mean by half an sd: {said}.")


def _robust(sensitivity: RowQuestions, names: list[str], at: np.ndarray, by: Any) -> Finding:
    """Larger sds are told first: they are where the posterior promises too much."""
    robust = robust_sds(sensitivity, names, at, by[0], VERIFIED).to_numpy()
    sd = sensitivity.sd[at]
    what = "Rows" if by[0] is None else "Levels"
    larger = robust > DIFFERENT * sd
    if larger.any():
        said = beside(
            [n for n, far in zip(names, larger, strict=True) if far], robust[larger], sd[larger]
        )
        return Finding(LOOK, "robust sds", f"{what} vary more than the model says. {said}")
    said = beside(names, robust, sd)
    if (robust < sd / DIFFERENT).any():
        said = f"{what} vary less than the model says, or a prior tells more. {said}"
    return Finding(GOOD, "robust sds", said)
