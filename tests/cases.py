"""Every model the laws run on: each shipped one, and one stated here as a user would state it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

import lrvb
from lrvb.models import NormalMixture, NormalPoisson, RandomSlope
from lrvb.studies.reference import simulate


class GammaPoisson(lrvb.Model):
    """Counts with their own gamma rates (negative binomial): a local Gamma, conjugate."""

    global_blocks = {"rate": lrvb.Gamma()}
    local_blocks = {"lam": lrvb.Gamma()}

    def global_term(self, m):
        return m.rate.log_x - m.rate.x

    def local_term(self, m, z, row):
        shape = 2.0
        prior = shape * m.rate.log_x + (shape - 1) * z.log_x - m.rate.x * z.x
        return prior + row.y * z.log_x - z.x


@dataclass(frozen=True)
class Case:
    """A model with a small data set; `str(case)` names it in the test report."""

    name: str
    make: Callable[[], tuple[Any, Any, Any]]

    def __str__(self) -> str:
        return self.name

    @property
    def model(self) -> lrvb.Model:
        return self._made[0]

    @property
    def data(self) -> Any:
        return self._made[1]

    @property
    def init(self) -> Any:
        return self._made[2]

    @property
    def _made(self):
        return _made(self)

    def fit(self, model: lrvb.Model | None = None, **options) -> lrvb.Fit:
        options.setdefault("init", self.init)
        return lrvb.fit(model or self.model, self.data, tol=1e-9, **options)

    def small_fit(self) -> lrvb.Fit:
        return _fitted(self)

    def response(self) -> lrvb.Response:
        return lrvb.respond(lrvb.linearize(self.small_fit()))


@cache
def _made(case: Case) -> tuple[Any, Any, Any]:
    return case.make()


@cache
def _fitted(case: Case) -> lrvb.Fit:
    return case.fit()


def normal_poisson(local: str):
    data = simulate.normal_poisson(np.random.default_rng(10), n=40, beta=1.0, sd=0.7)
    return NormalPoisson(local=local), {"x": data["x"], "y": data["y"]}, None


def random_slope():
    data = simulate.random_slope(np.random.default_rng(11), groups=12, per_group=5)
    return RandomSlope(), {k: data[k] for k in ("x", "r", "y", "group")}, None


def gamma_poisson():
    rng = np.random.default_rng(12)
    return GammaPoisson(), {"y": rng.poisson(rng.gamma(2.0, 2.0, size=30))}, None


def two_normals():
    """Two bivariate normals under a proper prior."""
    return NormalMixture(2, np.zeros(2), 0.1 * np.eye(2), 4.0, np.eye(2), concentration=3.0)


def normal_mixture():
    rng = np.random.default_rng(13)
    component = rng.integers(2, size=120)
    x = rng.normal(size=(120, 2)) + np.array([[0.0, 0.0], [3.0, 2.0]])[component]
    start = {"mu": {"loc": np.array([[0.0, 0.0], [3.0, 2.0]]), "cov": np.eye(2)}}
    return two_normals(), {"x": x}, start


CASES = [
    Case("NormalPoisson-tilted", lambda: normal_poisson("tilted")),
    Case("NormalPoisson-gaussian", lambda: normal_poisson("gaussian")),
    Case("RandomSlope", random_slope),
    Case("GammaPoisson", gamma_poisson),
    Case("NormalMixture", normal_mixture),
]


def tilted(case: Case, f: Callable[[Any], Any]) -> Callable[[float], lrvb.Model]:
    """t → the case's model with its log joint tilted by t·φ, where E_q φ = f(m)."""
    base = type(case.model)

    class TiltedModel(base):
        def global_term(self, m):
            return super().global_term(m) + self.tilt * f(m)

    def at(t: float) -> lrvb.Model:
        model = object.__new__(TiltedModel)
        model.__dict__.update(vars(case.model), tilt=float(t))
        return model

    return at
