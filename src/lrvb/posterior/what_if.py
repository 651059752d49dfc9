"""The labelled answers to what if: prior sensitivity, influence, robust sds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InvalidData, InvalidModel
from .answering import Influence, PriorQuestions, RowQuestions, largest_entry
from .arguments import require_whole
from .hyperparameters import Hyperparameter
from .noted import noted, noted_series
from .prior_steps import Asked, Step, fitted_step, plain_step_changes
from .table import require_finite

if TYPE_CHECKING:
    import pandas as pd

TELLING = 0.5  # sds: a plain step of a prior that moves a mean by more is said in words
RELIABLE = 0.7  # of k̂, up to which weights of draws can be averaged
FEW_GROUPS = (
    100  # below which a robust sd is itself so uncertain that normal quantiles are too small
)
DIFFERENT = 1.3  # the ratio of a robust sd to the posterior's beyond which it is said in words


def prior_table(sensitivity: PriorQuestions, of: Asked, verify: int) -> pd.DataFrame:
    """A row for every hyperparameter and quantity, the largest changes first."""
    import pandas as pd

    names, at = of.names, of.at

    require_whole("verify", verify, 0)
    if not sensitivity.known():
        raise InvalidModel(
            "This model holds no number that could be moved; store the prior's numbers as "
            "attributes (self.beta_var = 10.0) and use them in its terms."
        )
    sd = np.where(sensitivity.sd[at] > 0, sensitivity.sd[at], np.inf)
    changes = sensitivity.prior_changes(at)
    known, count = [change.hyperparameter for change in changes], len(names)
    d_mean, d_sd = (
        np.concatenate([np.zeros(0), *(change[i] for change in changes)]) for i in (1, 2)
    )
    step = np.repeat([h.step for h in known], count)
    change = step * d_mean / np.tile(sd, len(known))
    labels = [f"{h.name} of {name}" for h in known for name in names]
    for column, found in (("d_mean", d_mean), ("d_sd", d_sd), ("change", change)):
        require_finite(column, found, labels)
    order = np.argsort(-np.abs(change), kind="stable")
    columns = {
        "hyperparameter": np.repeat(np.array([h.name for h in known], dtype=object), count),
        "quantity": np.tile(np.array(names, dtype=object), len(known)),
        "value": np.repeat([h.value for h in known], count),
        "d_mean": d_mean,
        "d_sd": d_sd,
        "step": step,
        "change": change,
    }
    table = pd.DataFrame({name: values[order] for name, values in columns.items()})
    steps = plain_step_changes(sensitivity, changes, of)
    by_fits: dict[str, list[Step]] = {}
    for name in list(dict.fromkeys(step.hyperparameter.name for step in steps))[:verify]:
        own = sorted((s for s in steps if s.hyperparameter.name == name), key=lambda s: s.forth)
        by_fits[name] = [fitted_step(sensitivity, step, of).step for step in reversed(own)]
    if verify:
        table = table.join(_verified(table, names, by_fits))
    said = [
        _prior_sentence(sensitivity, names, steps, by_fits),
        sensitivity.remark(list(names), at),
    ]
    return noted(table, " ".join(filter(None, said)))


def _prior_sentence(
    sensitivity: PriorQuestions,
    names: Sequence[str],
    steps: Sequence[Step],
    by_fits: Mapping[str, Sequence[Step]],
) -> str:
    """On the step that moves a mean most, and on others like it where that is by more than half an sd."""
    of_priors = [step for step in steps if of_prior(step.hyperparameter)]
    if not of_priors:
        return ""
    worst, telling = of_priors[0], [step for step in of_priors if step.size > TELLING]
    k = worst.furthest
    said = f"{worst.said(names, k)}, as foretold from this fit"
    for fitted in by_fits.get(worst.hyperparameter.name, ()):
        if fitted.step == worst.step:
            said = f"{fitted.said(names, k)} by {sensitivity.verifies} ({worst.change[k]:+.2g} foretold)"
    if not telling:
        return f"No plain step of a prior moves a mean by {TELLING:g} sds: at most {said}."
    others = len({step.hyperparameter.name for step in telling}) - 1
    more = (
        f" ({others} other number{'s do' if others > 1 else ' does'} so by {TELLING:g} or more)"
        if others
        else ""
    )
    return f"The prior matters: {said}{more}."


def of_prior(hyperparameter: Hyperparameter) -> bool:
    """Whether it is one of the prior, not a power of the likelihood."""
    return not hyperparameter.name.endswith("the likelihood")


def _verified(
    table: pd.DataFrame, names: Sequence[str], by_fits: Mapping[str, Sequence[Step]]
) -> pd.DataFrame:
    """`verified`, the change in sds by a fit at `step`; `back`, the other way, and `verified_back`."""
    import pandas as pd

    values: dict[str, list[float | None]] = {"verified": [], "back": [], "verified_back": []}
    place = {name: k for k, name in enumerate(names)}
    for h, q in zip(table["hyperparameter"], table["quantity"], strict=True):
        found = {step.forth: step for step in by_fits.get(h, ())}
        forth, back = found.get(True), found.get(False)
        values["verified"].append(None if forth is None else float(forth.change[place[q]]))
        values["back"].append(None if back is None else back.step)
        values["verified_back"].append(None if back is None else float(back.change[place[q]]))
    return pd.DataFrame(values, index=table.index, dtype="Float64")


def influence_table(
    sensitivity: RowQuestions,
    names: Sequence[str],
    at: np.ndarray,
    codes: np.ndarray | None,
    levels: Any,
    scaled: bool,
    refits: int | None = None,
) -> pd.DataFrame:
    """The change of every mean if a row or level is left out, a row each."""
    import pandas as pd

    found = sensitivity.influence(at, codes, refits)
    values, refitted, k_hat, error = found[:4]
    if scaled:
        sd = sensitivity.sd[at]
        values /= np.where(sd > 0, sd, np.inf)
    index = pd.Index(sensitivity.labels) if codes is None else levels
    table = pd.DataFrame(values, index=index, columns=list(names), copy=False)
    table.attrs["scaled"] = scaled
    require_finite("influence", largest_entry(values), table.index)
    if k_hat is None:
        return _told(table, found, "row" if codes is None else "level")
    bad = int(np.sum(~(k_hat <= RELIABLE) & ~refitted))
    again = int(refitted.sum())
    said = "By weights of the draws"
    said += f"; {again} by fits of their own" if again else ""
    if error is not None and len(error):
        said += f"; with Monte Carlo errors of up to {error.max():.2g} sds"
    if bad:
        said += f"; {bad} have k_hat above {RELIABLE:g}, and may be further off"
        said += f" (with refits={again + bad} those that matter are fitted without)"
    if found.astray:
        said += f"; without {found.astray} there is no fit to compare"
    result = noted(table, said + ".")
    result.attrs.update(n_bad=bad, refitted=list(table.index[refitted]))
    return result


def _told(table: pd.DataFrame, found: Influence, what: str) -> pd.DataFrame:
    """The table with a line on how its rows were found."""
    again = int(found.refitted.sum())
    near = 0 if found.stepped is None else int(found.stepped.sum())
    unsure = f" ({found.unsure:,} of them may be more than 5 % off)" if found.unsure else ""
    parts = [
        f"{count:,} {what}{'s' if count > 1 else ''} {how}"
        for count, how in (
            (again, "by fits of their own" if again > 1 else "by a fit of its own"),
            (near, "by a step of the second order" + unsure),
            (len(table) - again - near, "to the first order"),
        )
        if count
    ]
    said = ", ".join(parts) or f"No {what}s"
    if found.astray:
        said += f"; {found.astray:,} fits without a {what} did not converge"
    result = noted(table, said + ".")
    result.attrs.update(refitted=list(table.index[found.refitted]))
    return result


def grouped(
    sensitivity: RowQuestions, by: Any, observed: Any, name: str = "by"
) -> tuple[np.ndarray | None, Any]:
    """Codes (N,) and levels of a column of the data, of an array, or none."""
    import pandas as pd

    if by is None:
        return None, None
    n = len(sensitivity.weights)
    column = by
    if isinstance(by, str):
        observed = {**(observed or {}), **sensitivity.columns}
        if by not in observed:
            raise InvalidData(
                f"The model reads no column '{by}'; it reads "
                + ", ".join(f"'{column}'" for column in observed)
                + f". A column that it does not read is given as values: {name}=data['{by}'].",
                column=by,
            )
        column = observed[by]
    if isinstance(by, pd.Series):
        _require_order(sensitivity.labels, by.index, name)
    column = _of_plate(sensitivity.labels, np.asarray(column), observed or {}, name)
    if column.shape != (n,):
        raise InvalidData(
            f"{name} has shape {column.shape}, but the model's plate has {n} rows; give the name of a "
            "column, or one value per row."
        )
    codes, levels = pd.factorize(column, sort=True)
    if (codes < 0).any():
        raise InvalidData(f"{name} has missing values; give every row a level.")
    return codes, pd.Index(levels, name=by if isinstance(by, str) else None)


def _require_order(labels: Any, index: Any, name: str) -> None:
    """Refuse a column with the row labels of the data in another order: it would be taken by place."""
    import pandas as pd

    if len(index) != len(labels) or index.equals(pd.Index(labels)) or not index.is_unique:
        return
    if index.isin(labels).all():
        raise InvalidData(
            f"{name} has the row labels of the data in another order; put it in theirs, "
            f"{name}={name}.loc[data.index], or give values alone, {name}={name}.to_numpy()."
        )


def _of_plate(labels: Any, column: np.ndarray, observed: Any, name: str) -> np.ndarray:
    """A column of the data for rows of a plate that are groups of the data's, by the name of their labels."""
    import pandas as pd

    of = getattr(labels, "name", None)
    groups = np.asarray(observed[of]) if of in observed else np.zeros(0)
    if len(groups) == len(labels) or column.shape != groups.shape:
        return column
    values = pd.Series(column).groupby(groups, dropna=False)
    several = values.nunique(dropna=False) > 1
    if several.any():
        raise InvalidData(
            f"{name} has more than one value within {of} '{several.idxmax()}'. A row of this model is a "
            f"whole {of}, and is left out as one: give a column that is the same within each."
        )
    return values.first().reindex(labels).to_numpy()


def require_others(levels: Any) -> None:
    """Without a level there must be rows left."""
    if levels is not None and len(levels) < 2:
        raise InvalidData(
            f"by has the one level '{levels[0]}', without which no rows are left; give a column with "
            "two levels at least."
        )


def robust_sds(
    sensitivity: RowQuestions,
    names: Sequence[str],
    at: np.ndarray,
    codes: np.ndarray | None,
    refits: int | None = None,
) -> pd.Series:
    """The infinitesimal jackknife's sds, with a word on those that are not the posterior's."""
    import pandas as pd

    if codes is None:
        codes = sensitivity.clusters
    values = np.sqrt(sensitivity.robust(at, codes, refits))
    require_finite("robust sd", values, names)
    said = beside(names, values, sensitivity.sd[at])
    result = pd.Series(values, index=list(names), name="sd")
    if codes is not None and (groups := int(codes.max()) + 1) < len(codes):
        result.attrs["groups"] = groups
        if groups < FEW_GROUPS:
            said += f" Of {groups} groups: intervals want quantiles of Student's t, {groups - 1} degrees."
    return noted_series(result, said)


def beside(names: Sequence[str], robust: np.ndarray, sd: np.ndarray) -> str:
    """Which robust sds differ from the posterior's by more than 30 %, the furthest first."""
    with np.errstate(divide="ignore", invalid="ignore"):
        apart = np.abs(np.log(robust / sd))
    far = np.flatnonzero(~(apart <= np.log(DIFFERENT)) & ((robust > 0) | (sd > 0)))
    if not len(far):
        return "All within 30 % of the posterior's sds."
    far = far[np.argsort(-apart[far], kind="stable")]
    told = [f"{names[k]} {robust[k]:.3g} beside {sd[k]:.3g}" for k in far[:3]]
    more = f", and {len(far) - 3} more" if len(far) > 3 else ""
    return f"More than 30 % from the posterior's sds: {', '.join(told)}{more}."
