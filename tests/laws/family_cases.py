"""Every family at typical and at extreme parameters, with its moments to 40 digits.

The reference of a case starts from the natural parameters as stored (64-bit numbers taken as exact)
and knows nothing but the textbook: mean, covariance of T and A(η).
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import mpmath as mp
import numpy as np

from laws.family_references import (
    BERNOULLI,
    POISSON,
    bernoulli_reference,
    categorical_reference,
    dirichlet_reference,
    gamma_reference,
    gaussian_chain_reference,
    log,
    log_gammas,
    markov_chain_reference,
    mvn_reference,
    normal_reference,
    poisson_reference,
    real,
    wishart_coordinates,
    wishart_reference,
)
from lrvb import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    GaussianChain,
    MarkovChain,
    MultivariateNormal,
    Normal,
    Wishart,
)
from lrvb.families import Family

mp.mp.dps = 40


@dataclass(frozen=True, eq=False)
class FamilyCase:
    """A family at one parameter value.

    `reference(eta)` gives (A, m, V) in flat coordinates as mpmath numbers; `coordinates(x)` the
    unconstrained coordinates of draws. Extreme cases (`typical=False`) are out of reach of autodiff
    and of sampling. `log_partition_atol` is what rounding leaves of A.
    """

    name: str
    stated: Family
    params: dict[str, Any]
    reference: Callable[[Any], tuple[Any, Any, Any]]
    coordinates: Callable[[np.ndarray, Any], np.ndarray] | None = None
    typical: bool = True
    log_partition_atol: float = 1e-12
    row: Any = None

    def __str__(self) -> str:
        return self.name

    @property
    def family(self) -> Family:
        """The family, bound to its row where it needs one."""
        return self.stated.at(self.row)

    def compiled(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """function(family, *arguments), compiled once for all cases of one stated family."""
        return _compiled(self.stated, function)(self.row, *arguments)

    @property
    def eta(self) -> Any:
        """Natural parameters."""
        return self.family.from_params(**self.params)


@functools.cache
def _compiled(stated: Family, function: Callable[..., Any]) -> Callable[..., Any]:
    return jax.jit(lambda row, *arguments: function(stated.at(row), *arguments))


# ---- the cases ----------------------------------------------------------------------------

SCALE = np.array([[2.0, 0.7, -0.3], [0.7, 1.0, 0.2], [-0.3, 0.2, 0.5]])
LOC = np.array([1.0, -2.0, 0.5])


def _cases() -> list[FamilyCase]:
    cases = []

    def add(
        name, family, reference, coordinates=None, typical=True, atol=1e-12, row=None, **params
    ):
        case = FamilyCase(name, family, params, reference, coordinates, typical, atol, row)
        cases.append(case)

    add("Normal", Normal(), normal_reference, real, loc=2.0, scale=0.3)
    add("Normal-narrow", Normal(), normal_reference, typical=False, loc=1e3, scale=1e-5)
    add("Normal-wide", Normal(), normal_reference, typical=False, loc=-1.0, scale=1e8)

    add("Gamma", Gamma(), gamma_reference, log, shape=3.0, rate=2.0)
    add("Gamma-small", Gamma(), gamma_reference, log, shape=0.2, rate=0.5)
    add("Gamma-tiny", Gamma(), gamma_reference, typical=False, shape=1e-3, rate=1e-6)
    add("Gamma-huge", Gamma(), gamma_reference, typical=False, shape=1e8, rate=1e6)

    mvn = MultivariateNormal(3)
    add("MultivariateNormal", mvn, mvn_reference, real, loc=LOC, cov=SCALE)
    one = MultivariateNormal(1)
    add("MultivariateNormal-1", one, mvn_reference, real, loc=LOC[:1], cov=SCALE[:1, :1])
    add(
        "MultivariateNormal-narrow",
        mvn,
        mvn_reference,
        typical=False,
        loc=1e3 * LOC,
        cov=1e-8 * SCALE,
    )
    add("MultivariateNormal-wide", mvn, mvn_reference, typical=False, loc=LOC, cov=1e14 * SCALE)

    wishart = Wishart(3)
    add("Wishart", wishart, wishart_reference, wishart_coordinates, dof=5.3, scale=SCALE)
    add(
        "Wishart-1",
        Wishart(1),
        wishart_reference,
        wishart_coordinates,
        dof=3.0,
        scale=SCALE[:1, :1],
    )
    add("Wishart-tiny", wishart, wishart_reference, typical=False, dof=2.001, scale=1e-6 * SCALE)
    add("Wishart-huge", wishart, wishart_reference, typical=False, dof=1e8, scale=1e-6 * SCALE)

    dirichlet = Dirichlet(3)
    add("Dirichlet", dirichlet, dirichlet_reference, log_gammas, concentration=[0.5, 2.0, 7.0])

    def extreme(name, concentration, **options):
        add(
            name,
            dirichlet,
            dirichlet_reference,
            None,
            False,
            concentration=concentration,
            **options,
        )

    extreme("Dirichlet-tiny", [1e-3, 2e-3, 3e-3])
    extreme("Dirichlet-huge", [1e8, 2e8, 3e8])
    extreme("Dirichlet-mixed", [1e-3, 1.0, 1e8], atol=1e-6)  # log Γ(1e8) = 1.7e9 cancels

    add("Beta", Beta(), dirichlet_reference, log_gammas, a=2.0, b=3.5)
    add("Beta-tiny", Beta(), dirichlet_reference, typical=False, a=1e-3, b=2e-3)
    add("Beta-huge", Beta(), dirichlet_reference, typical=False, a=1e8, b=1e6)

    categorical = Categorical(3)
    add("Categorical", categorical, categorical_reference, probs=[0.2, 0.3, 0.5])
    add(
        "Categorical-sure",
        categorical,
        categorical_reference,
        typical=False,
        probs=[1e-12, 1e-100, 1.0],
    )

    chain = GaussianChain(4)

    def gaussian_chain(name, loc, diagonal, offdiagonal, coordinates=None):
        add(
            name,
            chain,
            gaussian_chain_reference,
            coordinates,
            coordinates is not None,
            loc=loc,
            diagonal=diagonal,
            offdiagonal=offdiagonal,
        )

    ends = np.array([3.0, 4.0, 5.0, 2.0])
    gaussian_chain("GaussianChain", [1.0, -2.0, 0.5, 0.3], ends, [1.0, -2.0, 0.7], real)
    gaussian_chain("GaussianChain-narrow", [1e3, 2.0, -1e3, 5.0], 1e8 * ends, [1e8, -2e8, 7e7])
    walk = np.array([1.001, 2.0, 2.0, 1.0])  # a random walk of small steps and unknown level
    gaussian_chain("GaussianChain-walk", [3.0, 3.1, 3.0, 2.9], 100 * walk, [-100.0] * 3)

    markov = MarkovChain(3, 3)
    row = np.array([[0.5, 0.2, 0.3], [0.1, 0.8, 0.1], [0.3, 0.3, 0.4]])
    sure = np.array([[1e-9, 1.0, 1e-7], [1e-8, 1e-8, 1.0], [1.0, 1e-9, 1e-7]])

    def markov_chain(name, typical, initial, *transition):
        rows = np.stack([rows / rows.sum(axis=1, keepdims=True) for rows in transition])
        add(name, markov, markov_chain_reference, None, typical, initial=initial, transition=rows)

    markov_chain("MarkovChain", True, [0.2, 0.3, 0.5], row, row.T)
    markov_chain("MarkovChain-sure", False, [1e-9, 1.0 - 2e-9, 1e-9], sure, sure)

    def tilted(name, family, reference, y, loc, scale, coordinates=None):
        typical = coordinates is not None
        where = "" if typical else f"-at-{loc:g}-sd-{scale:g}"
        add(
            f"Tilted-{name}-{y:g}{where}",
            family,
            reference(y),
            coordinates,
            typical,
            row=y,
            loc=loc,
            scale=scale,
        )

    tilted("Poisson", POISSON, poisson_reference, 0.0, 0.5, 1.5, real)
    tilted("Poisson", POISSON, poisson_reference, 3.0, 0.5, 1.5, real)
    tilted("Bernoulli", BERNOULLI, bernoulli_reference, 1.0, -0.5, 2.0, real)
    for y, loc, scale in itertools.product((0.0, 1e4), (-5.0, 10.0), (4.47, 0.01)):
        tilted("Poisson", POISSON, poisson_reference, y, loc, scale)
    for loc, scale in itertools.product((-5.0, 10.0), (4.47, 0.01)):
        tilted("Bernoulli", BERNOULLI, bernoulli_reference, 1.0, loc, scale)
    return cases


CASES = _cases()
TYPICAL = [case for case in CASES if case.typical]
