"""A fitted mixed model in one file: its posterior, joint draws, and a design that makes columns of new rows.

No rows of the data are kept. What is asked of a model that was read is answered from its draws, whose
means and sds are those of the fit's tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from ...errors import InvalidData, InvalidModel
from ...likelihoods import Likelihood, likelihood_of
from ...posterior.archive import Archive, require_finite
from ...posterior.posterior import Posterior
from ...posterior.storage import save
from .after_the_fit import Drawn
from .answers.drawn import DrawnAnswers, DrawnEffects
from .answers.joint import JointDraws
from .design.plain_values import coded, decoded
from .design.stored import StoredDesign, describe, restore
from .estimator import MixedModel
from .integral.certificate import MixedCertificate, variational_certificate
from .partitions.design import PartitionedDesign

DRAWS, MOST = 2000, 2**25  # draws that a file has, and numbers of all levels that it may have
SCALARS = (
    *("method", "exact", "reason", "k_hat", "ess", "drawn", "log_evidence", "log_evidence_error"),
    *("node_error", "refused", "probes", "unknown", "levels_error", "joint"),
)


class StoredDraws(NamedTuple):
    """The draws of a file."""

    draws: JointDraws

    def draw(self, n: int, rng: np.random.Generator, levels: bool = True) -> JointDraws:
        """n of them in another order; more than there are come several times."""
        at = np.resize(rng.permutation(len(self.draws)), n)
        return self.draws.some(at)


class StoredPriors(NamedTuple):
    """The table of priors as it was, and whether the response has parameters of its own."""

    rows: pd.DataFrame
    dispersions: tuple[str, ...]

    def table(self) -> pd.DataFrame:
        """One row per prior."""
        return self.rows


def save_model(model: MixedModel, path: Path) -> Path:
    """Write a fitted model; the posterior's own file with draws and a design beside it."""
    design, posterior = model._design(), model.posterior_
    if isinstance(design, PartitionedDesign):
        raise InvalidModel(
            "A fit to rows on Dask cannot be saved with its predictions; model.posterior_.save(path) keeps "
            "its tables and its levels."
        )
    size = sum(
        len(f.levels) * len(t.coefficients)
        for t in design.terms
        for f in [design.factors[t.factor]]
    )
    n = int(min(DRAWS, max(200, MOST // max(1, size))))
    draws = calibrated(model, model._drawn.draw(n, 0))
    found = model.certificate_
    if getattr(posterior.certificate, "judged", None) is not None:
        found = variational_certificate(
            "verdicts and repaired numbers are those of its certificate"
        )
    arrays: dict[str, np.ndarray] = {"draws/beta": draws.beta}
    for t, (effects, covariance) in enumerate(zip(draws.effects, draws.covariances, strict=True)):
        arrays[f"draws/effects/{t}"] = effects.astype(np.float32)
        arrays[f"draws/covariances/{t}"] = covariance
    names = list(draws.values)
    arrays["draws/values"] = np.array([draws.values[name] for name in names]).reshape(len(names), n)
    noise = list(draws.noise)
    arrays["draws/noise"] = np.array([draws.noise[name] for name in noise]).reshape(len(noise), n)
    priors = model.priors_.table()
    table = None if posterior.weighted is not None else pd.DataFrame(model.summary())
    header = {
        "mixed": {
            "design": describe(design),
            "family": design.family.name,
            "factorization": model.factorization,
            "values": names,
            "noise": noise,
            "certificate": {key: coded(getattr(found, key)) for key in SCALARS},
            "errors": {
                key: [[str(n), float(v)] for n, v in getattr(found, key).items()]
                for key in ("mean_error", "sd_error", "tail", "lost")
            },
            "priors": [[str(i), *map(_text, row)] for i, row in priors.iterrows()],
            "prior_columns": list(priors.columns),
            "dispersions": [str(name) for name, *_ in model.priors_.dispersions],
            "summary": None if table is None else _frame(table),
        }
    }
    return save(posterior, path, more=header, beside=arrays)


def calibrated(model: MixedModel, draws: JointDraws) -> JointDraws:
    """Draws moved and stretched so that every coefficient and level has the mean and sd of its table."""
    posterior, design = model.posterior_, model._design()
    names = list(design.names)
    beta = draws.beta
    if names:
        beta = _moved(beta, posterior.mean(names).to_numpy(), posterior.sd(names).to_numpy())
    effects = []
    for t, (term, part) in enumerate(zip(design.terms, draws.effects, strict=True)):
        own = [model._effects.moments(t, j) for j in range(len(term.coefficients))]
        mean, sd = (np.stack([getattr(m, key) for m in own], axis=1) for key in ("mean", "sd"))
        effects.append(_moved(part, mean, sd))
    values = {**draws.values, **dict(zip(names, beta.T, strict=True))}
    return JointDraws(beta, effects, draws.covariances, draws.noise, values)


def _moved(draws: np.ndarray, mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    own = draws.std(0)
    return mean + (draws - draws.mean(0)) * (sd / np.where(own > 0, own, 1.0))


def model_of(
    header: Mapping[str, Any],
    archive: Archive,
    posterior: Posterior,
    family: Likelihood | None = None,
    functions: Mapping[str, Callable[..., Any]] | None = None,
) -> MixedModel:
    """The model of a file; `family` and `functions` are the user's own, where it had any."""
    found = header["mixed"]
    likelihood = family or _family(found["family"])
    if likelihood.name != found["family"]:
        raise InvalidData(
            f"The file's model has family='{found['family']}', not '{likelihood.name}'; pass that one."
        )
    design = restore(found["design"], likelihood, functions)
    draws = _draws(found, archive, design)
    errors = {
        key: pd.Series(dict(map(tuple, pairs)), dtype=float)
        for key, pairs in found["errors"].items()
    }
    stored = found["certificate"]
    scalars = {key: decoded(stored[key]) for key in SCALARS if key in stored}
    weighted = posterior.weighted
    estimate = None if weighted is None else posterior.estimate
    certificate = MixedCertificate(**scalars, **errors, estimate=estimate, weighted=weighted)
    index, *columns = zip(*found["priors"], strict=True) if found["priors"] else ((), *[()] * 3)
    priors = StoredPriors(
        pd.DataFrame(dict(zip(found["prior_columns"], columns, strict=True)), index=list(index)),
        tuple(found["dispersions"]),
    )
    model = MixedModel(
        found["design"]["formula"],
        likelihood if family is not None else found["family"],
        factorization=found["factorization"],
        functions=functions,
    )
    effects = DrawnEffects(design, list(posterior.estimate.index), posterior, draws)
    kept: Any = priors
    model._drawn = Drawn(StoredDraws(draws))
    model._keep(design, kept, posterior, effects, DrawnAnswers(design, draws), certificate)
    if found["summary"] is not None:
        model._stored_summary = _table(found["summary"])
    return model


def _draws(found: Mapping[str, Any], archive: Archive, design: StoredDesign) -> JointDraws:
    beta = archive.array("draws/beta")
    n = len(beta)
    effects, covariances = [], []
    for t, term in enumerate(design.terms):
        q, levels = len(term.coefficients), len(design.factors[term.factor].levels)
        part = archive.array(f"draws/effects/{t}").astype(np.float64)
        if part.shape != (n, levels, q):
            raise ValueError(f"the draws of '{term.name}' have shape {part.shape}")
        effects.append(part)
        covariances.append(archive.array(f"draws/covariances/{t}", (n, q, q)))
    values = archive.array("draws/values", (len(found["values"]), n))
    noise = archive.array("draws/noise", (len(found["noise"]), n))
    for name, part in (("beta", beta), ("values", values), ("noise", noise)):
        require_finite(f"draws/{name}", part)
    if beta.shape != (n, len(design.names)):
        raise ValueError(f"the draws of coefficients have shape {beta.shape}")
    return JointDraws(
        beta,
        effects,
        covariances,
        dict(zip(found["noise"], noise, strict=True)),
        dict(zip(found["values"], values, strict=True)),
    )


def _family(name: str) -> Likelihood:
    try:
        return likelihood_of(name)
    except Exception as error:
        raise InvalidData(
            f"The file's model has family='{name}', which is not one of lrvb's; pass the likelihood, as in "
            "lrvb.load(path, family=likelihood)."
        ) from error


def _text(value: Any) -> Any:
    return bool(value) if isinstance(value, bool | np.bool_) else str(value)


def _frame(table: pd.DataFrame) -> dict[str, Any]:
    return {
        "index": [str(name) for name in table.index],
        "columns": {str(name): table[name].tolist() for name in table.columns},
    }


def _table(found: Mapping[str, Any]) -> pd.DataFrame:
    return pd.DataFrame(found["columns"], index=found["index"])
