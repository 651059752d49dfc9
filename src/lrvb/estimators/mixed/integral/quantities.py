"""Named quantities of a mixed model at draws of its hyperparameters: sds, correlations, precisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from ....integrated.terms import Spread
from ....numerics.packing import Slot
from ....posterior.blocks import Block, RealBlock, Support
from ..design.design import Design
from ..fit.precision_model import RESIDUAL, block_name
from ..priors.stated import MixedPriors
from .statement import precision_is_finite


@dataclass
class Quantities:
    """Blocks with their labels, supports and values at n draws, one after another.

    absent has a sentence for every name without a finite mean.
    """

    blocks: dict[str, Block] = field(default_factory=dict)
    labels: list[str] = field(default_factory=list)
    supports: list[Support] = field(default_factory=list)
    columns: list[np.ndarray] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)

    def add(
        self, block: str, labels: list[str], values: np.ndarray, supports: list[Support]
    ) -> None:
        """One block: a number (n,), or a vector (n, k) with its labels."""
        self.blocks[block] = RealBlock(() if values.ndim == 1 else values.shape[1:])
        self.labels += labels
        self.supports += supports
        self.columns.append(values.reshape(len(values), -1))

    @property
    def values(self) -> np.ndarray:
        """(n, a)."""
        return np.concatenate(self.columns, axis=1)


def sd_name(effect: str) -> str:
    """`sd[1|g]` of the effect `1|g`."""
    return f"sd[{effect}]"


def quantities(
    design: Design,
    priors: MixedPriors,
    beta: np.ndarray,
    spreads: list[Spread],
    residual: np.ndarray | None,
    dispersions: Sequence[np.ndarray] = (),
    smooths: Sequence[np.ndarray] = (),
) -> Quantities:
    """β (n, p), then every term's sds, correlations and precisions, the residual's, and dispersions."""
    found = Quantities()
    if design.names:
        found.add("beta", list(design.names), beta, [Support()] * len(design.names))
    for term, prior, effects, spread in zip(
        design.terms, priors.terms, priors.coefficients, spreads, strict=True
    ):
        name, q = term.name, len(term.coefficients)
        for i, effect in enumerate(effects):
            found.add(sd_name(effect), [sd_name(effect)], spread.sd[:, i], [Support("positive")])
        precision = block_name(name, q)
        finite = precision_is_finite(prior)
        if q == 1:
            _add_precision(found, precision, spread.sd[:, 0], finite)
            continue
        pairs = list(zip(*np.triu_indices(q, 1), strict=True))
        labels = [f"corr[{name}][{term.coefficients[i]},{term.coefficients[j]}]" for i, j in pairs]
        values = np.stack([spread.correlation[:, i, j] for i, j in pairs], axis=1)
        found.add(f"corr[{name}]", labels, values, [Support()] * len(pairs))
        entries = Slot((q, q), symmetric=True).indices()
        labels = [f"{precision}[{term.coefficients[i]},{term.coefficients[j]}]" for i, j in entries]
        if finite:
            values = np.stack([spread.precision[:, i, j] for i, j in entries], axis=1)
            kinds = [Support("positive" if i == j else "real") for i, j in entries]
            found.add(precision, labels, values, kinds)
        else:
            for label in [precision, *labels]:
                found.absent[label] = _no_mean(label, f"logdet({precision})")
        logdet = f"logdet({precision})"
        found.add(logdet, [logdet], -spread.logdet, [Support()])
    for (label, _), values in zip(priors.smooths, smooths, strict=False):
        found.add(sd_name(label), [sd_name(label)], values, [Support("positive")])
    if residual is not None:
        found.add("sd[residual]", ["sd[residual]"], residual, [Support("positive")])
        _add_precision(found, RESIDUAL, residual, True)
    place = 0
    for own in design.dispersions if dispersions else ():
        k = own.range.size
        values = np.stack(dispersions[place : place + k], axis=1)
        support = Support("positive" if own.range.positive else "real")
        shaped = values[:, 0] if own.labels == (own.name,) else values
        found.add(own.name, list(own.labels), shaped, [support] * k)
        place += k
    return found


def _add_precision(found: Quantities, name: str, sd: np.ndarray, finite: bool) -> None:
    """λ = 1/sd² and its logarithm."""
    if finite:
        log_at = len(found.labels) + 1
        found.add(name, [name], sd**-2.0, [Support("positive", log_at)])
    else:
        found.absent[name] = _no_mean(name, f"log({name})")
    found.add(f"log({name})", [f"log({name})"], -2 * np.log(sd), [Support()])


def _no_mean(name: str, instead: str) -> str:
    sd = name.replace("precision[", "sd[") if name.startswith("precision[") else "the sds"
    return (
        f"'{name}' has no finite mean: the prior of the sd is not zero at 0, where a precision is "
        f"infinite. Ask for '{instead}', or for {sd}."
    )
