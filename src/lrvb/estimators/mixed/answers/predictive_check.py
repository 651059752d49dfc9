"""Would the model have made data like these? Data replicated from joint draws, beside those observed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ....posterior.check_up import GOOD, LOOK, Finding
from ..design.design import Design
from .joint import JointDraws, linear_predictor
from .prediction import fitted_rows
from .simulated import drawn_at

DRAWS, FEWEST = 200, 50
CELLS = 4e7  # rows × draws of all replications
AT_ONCE = 2**22
STRANGE = 0.01  # of a replicated statistic: the share of draws at or beyond what was observed
WHAT = "predictive check"
WIDER = {  # families whose rows vary more, or are zero more often
    "poisson": "negbinomial",
    "zero_inflated_poisson": "zero_inflated_negbinomial",
    "hurdle_poisson": "hurdle_negbinomial",
    "negbinomial": "zero_inflated_negbinomial",
    "gaussian": "student",
}


def predictive_finding(design: Design, draw: Callable[[int], JointDraws]) -> Finding:
    """Mean, sd, share of zeros and largest value of replicated data, with levels as they are drawn.

    Of ordered categories, which are numbered from 1, the mean and the sd of their numbers. `draw` gives so
    many joint draws. A statistic is strange if fewer than 1 % of the replications are as
    far out.
    """
    n = int(np.clip(CELLS / design.n, FEWEST, DRAWS))
    statistics = _statistics(design)
    seen = {name: f(design.y) for name, f in statistics.items()}
    made: dict[str, list[float]] = {name: [] for name in statistics}
    for y in _replicated(design, draw(n)):
        for name, f in statistics.items():
            made[name].append(f(y))
    shares = {name: _share(np.array(made[name]), seen[name]) for name in statistics}
    worst = min(shares, key=lambda name: min(shares[name], 1 - shares[name]))
    low, high = np.quantile(made[worst], [0.03, 0.97])
    said = f"the {worst} is {seen[worst]:.3g}, of replicated data {low:.3g} to {high:.3g} "
    said += f"(p {_written(shares[worst], n)})"
    if min(shares[worst], 1 - shares[worst]) < STRANGE:
        remedy = WIDER.get(design.family.name) if worst != "mean" else None
        if remedy is not None and shares[worst] < STRANGE:
            said += f". Compare with family='{remedy}', whose rows vary more"
        return Finding(LOOK, WHAT, f"The model does not make data like these: {said}.")
    names = ", ".join(statistics)
    return Finding(GOOD, WHAT, f"Replicated data are alike in {names}; {said}.")


def _written(share: float, n: int) -> str:
    """A share of n replications, which knows nothing closer to 0 or 1 than 1/n."""
    if share < 1 / n:
        return f"< {1 / n:.2g}"
    return f"> {1 - 1 / n:.3g}" if share > 1 - 1 / n else f"= {share:.2g}"


def _statistics(design: Design) -> dict[str, Callable[[np.ndarray], float]]:
    found: dict[str, Callable[[np.ndarray], float]] = {"mean": lambda y: float(y.mean())}
    single = design.trials is None or bool(np.all(design.trials == 1))
    if design.family.binary or (design.family.name == "binomial" and single):
        return found
    if design.family.categorical:
        return {"mean category": found["mean"], "sd of the categories": lambda y: float(y.std())}
    found["sd"] = lambda y: float(y.std())
    if design.family.discrete:
        found["share of zeros"] = lambda y: float((y == 0).mean())
    found["largest value"] = lambda y: float(y.max())
    return found


def _replicated(design: Design, draws: JointDraws) -> Iterator[np.ndarray]:
    """One response of all rows for every draw."""
    rng = np.random.default_rng(0)
    rows = fitted_rows(design)
    step = max(1, AT_ONCE // design.n)
    for start in range(0, len(draws), step):
        some = draws.some(slice(start, start + step))
        eta = linear_predictor(design, some, rows, rng)
        given = {name: part[:, None] for name, part in some.noise.items()} | dict(design.given)
        yield from drawn_at(design.family, eta, given, rng)


def _share(made: np.ndarray, seen: float) -> float:
    """Of replications at least as large as what was seen, those equal to it by half."""
    return float((made > seen).mean() + (made == seen).mean() / 2)
