"""27 linear regressions of posteriordb in NumPyro, and their exact moments by quadrature over σ."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "posteriordb"
MISSING = f"The data of posteriordb are not there: {FOLDER} should hold NAME.data.json of every posterior."
NODES = 4001  # of log σ, twelve posterior sds to either side

Columns = tuple[list[np.ndarray], np.ndarray]  # those beside the intercept, and the outcome


@dataclass(frozen=True)
class Regression:
    """y ~ N(Xβ, σ²) with β flat or N(mean, sd²), and σ flat or with the log prior `log_sigma`."""

    X: np.ndarray
    y: np.ndarray
    prior: str = "flat"  # of σ: flat, HalfCauchy(2.5) or HalfNormal(10)
    mean: np.ndarray | None = None
    sd: np.ndarray | None = None

    def model(self) -> None:
        """The same in NumPyro."""
        import jax.numpy as jnp
        import numpyro
        import numpyro.distributions as dist
        from numpyro.distributions import constraints

        if self.sd is None:
            flat = dist.ImproperUniform(constraints.real, (), (self.X.shape[1],))
            beta = numpyro.sample("beta", flat)
        else:
            beta = numpyro.sample("beta", dist.Normal(self.mean, self.sd).to_event(1))
        sigma = numpyro.sample(
            "sigma",
            {
                "flat": dist.ImproperUniform(constraints.positive, (), ()),
                "cauchy": dist.HalfCauchy(2.5),
                "normal": dist.HalfNormal(10.0),
            }[self.prior],
        )
        numpyro.sample("y", dist.Normal(jnp.asarray(self.X) @ beta, sigma), obs=self.y)

    def exact(self) -> dict[str, tuple[float, float]]:
        """Mean and sd of every β and of σ: β is normal given σ, and σ is integrated on a grid."""
        n, p = self.X.shape
        Q, R = np.linalg.qr(self.X)
        seen = Q.T @ self.y
        rest = ((self.y - Q @ seen) ** 2).sum()
        u = 0.5 * np.log(rest / (n - p)) + np.linspace(-12, 12, NODES) / np.sqrt(2 * n)
        scale = np.linalg.norm(R, axis=0)
        R = R / scale  # β in units of its columns, for the sake of rounding
        P0 = np.zeros((p, p)) if self.sd is None else np.diag((scale * self.sd) ** -2.0)
        m0 = np.zeros(p) if self.mean is None else scale * self.mean
        weights, means, variances = np.empty(NODES), np.empty((NODES, p)), np.empty((NODES, p))
        for k, node in enumerate(u):
            variance = np.exp(2 * node)
            S = np.linalg.inv(R.T @ R / variance + P0)
            means[k] = S @ (R.T @ seen / variance + P0 @ m0)
            variances[k] = np.diag(S)
            gap, moved = seen - R @ means[k], means[k] - m0
            weights[k] = (
                (1 - n) * node  # the Jacobian of log σ among them
                - 0.5 * (rest + gap @ gap) / variance
                - 0.5 * moved @ P0 @ moved
                + 0.5 * np.linalg.slogdet(S)[1]
                + self._log_prior(variance)
            )
        w = np.exp(weights - weights.max())
        w /= w.sum()
        b = w @ means
        sds = np.sqrt(w @ (variances + (means - b) ** 2)) / scale
        sigma = np.exp(u)
        found = {
            f"beta[{i}]": (float(m), float(s))
            for i, (m, s) in enumerate(zip(b / scale, sds, strict=True))
        }
        center = w @ sigma
        return found | {"sigma": (float(center), float(np.sqrt(w @ (sigma - center) ** 2)))}

    def _log_prior(self, variance: float) -> float:
        if self.prior == "cauchy":
            return -float(np.log1p(variance / 2.5**2))
        return -0.5 * variance / 10.0**2 if self.prior == "normal" else 0.0


def data(name: str) -> dict[str, Any]:
    """Data of a posterior, as arrays."""
    stored = json.loads((FOLDER / f"{name}.data.json").read_text())
    return {key: np.asarray(value) for key, value in stored.items()}


def _nes(d: dict[str, Any]) -> Columns:
    age = [d["age_discrete"] == k for k in (2, 3, 4)]
    before, after = [d["real_ideo"], d["race_adj"]], [d["educ1"], d["gender"], d["income"]]
    return [*before, *age, *after], d["partyid7"]


def _earnings(kind: str) -> Callable[[dict[str, Any]], Columns]:
    def columns(d: dict[str, Any]) -> Columns:
        h, male, log = d["height"], d["male"], np.log(d["earn"])
        z = (h - h.mean()) / h.std(ddof=1)
        return {
            "log10earn_height": ([h], log / np.log(10)),
            "logearn_height": ([h], log),
            "logearn_height_male": ([h, male], log),
            "logearn_interaction": ([h, male, h * male], log),
            "logearn_interaction_z": ([z, male, z * male], log),
            "logearn_logheight_male": ([np.log(h), male], log),
        }[kind]

    return columns


def _kids(kind: str) -> Callable[[dict[str, Any]], Columns]:
    def columns(d: dict[str, Any]) -> Columns:
        school, iq = d["mom_hs"], d["mom_iq"]
        pairs = {
            "c": (school - school.mean(), iq - iq.mean()),
            "c2": (school - 0.5, iq - 100.0),
            "z": tuple((v - v.mean()) / (2 * v.std(ddof=1)) for v in (school, iq)),
        }
        if kind in pairs:
            a, b = pairs[kind]
            return [a, b, a * b], d["kid_score"]
        if kind == "work":
            return [d["mom_work"] == k for k in (2, 3, 4)], d["kid_score"]
        return {"hs": [school], "hsiq": [school, iq], "iq": [iq]}[kind], d["kid_score"]

    return columns


def _mesquite(kind: str) -> Callable[[dict[str, Any]], Columns]:
    def columns(d: dict[str, Any]) -> Columns:
        one, two, canopy, height, density = (
            np.log(d[k]) for k in ("diam1", "diam2", "canopy_height", "total_height", "density")
        )
        group, volume, area, shape = d["group"], one + two + canopy, one + two, one - two
        return {
            "": [one, two, canopy, height, density, group],
            "_logva": [volume, area, group],
            "_logvas": [volume, area, shape, height, density, group],
            "_logvash": [volume, area, shape, height, group],
            "_logvolume": [volume],
        }[kind], np.log(d["weight"])

    return columns


COLUMNS: dict[str, tuple[Callable[[dict[str, Any]], Columns], str]] = {
    **{f"nes{year}-nes": (_nes, "flat") for year in range(1976, 2001, 4)},
    **{
        f"earnings-{kind}": (_earnings(kind), "flat")
        for kind in (
            "log10earn_height",
            "logearn_height",
            "logearn_height_male",
            "logearn_interaction",
            "logearn_interaction_z",
            "logearn_logheight_male",
        )
    },
    **{f"kidiq-kidscore_mom{kind}": (_kids(kind), "cauchy") for kind in ("hs", "hsiq", "iq")},
    **{
        f"kidiq_with_mom_work-kidscore_interaction_{kind}": (_kids(kind), "flat")
        for kind in ("c", "c2", "z")
    },
    "kidiq_with_mom_work-kidscore_mom_work": (_kids("work"), "flat"),
    **{
        f"mesquite-logmesquite{kind}": (_mesquite(kind), "flat")
        for kind in ("", "_logva", "_logvas", "_logvash", "_logvolume")
    },
}
REGRESSIONS = (*COLUMNS, "kilpisjarvi_mod-kilpisjarvi", "sblri-blr")


def regression(name: str) -> Regression:
    """One of REGRESSIONS, with its data."""
    d = data(name)
    if name == "sblri-blr":
        p = d["X"].shape[1]
        return Regression(d["X"], d["y"], "normal", np.zeros(p), np.full(p, 10.0))
    if name == "kilpisjarvi_mod-kilpisjarvi":
        X = np.stack([np.ones(len(d["y"])), d["x"]], axis=-1)
        mean = np.array([d["pmualpha"], d["pmubeta"]], dtype=float)
        return Regression(X, d["y"], "flat", mean, np.array([d["psalpha"], d["psbeta"]], float))
    columns, prior = COLUMNS[name]
    beside, y = columns(d)
    X = np.stack([np.ones(len(y)), *beside], axis=-1).astype(float)
    return Regression(X, np.asarray(y, dtype=float), prior)
