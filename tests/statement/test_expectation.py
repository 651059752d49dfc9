"""Terms derived from log p are those written by hand, and what is not conjugate is noticed."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpy.testing import assert_allclose

import lrvb
from cases import CASES
from lrvb.numerics.double import double
from lrvb.statement.expectation import planned
from lrvb.statement.problem import state_problem
from lrvb.statement.rules import by_draws, by_quadrature, exact_rule, variable_shape

LOG_2PI = np.log(2 * np.pi)
BY_NAME = {case.name: case for case in CASES}


def gamma_log_p(x, shape, rate):
    return (
        shape * jnp.log(rate)
        - jax.scipy.special.gammaln(shape)
        + (shape - 1) * jnp.log(x)
        - rate * x
    )


class NormalPoisson(lrvb.Model):
    """The paper's first model with a normal q(z), from log p."""

    columns = ("x", "y")
    global_blocks = {"beta": lrvb.Normal(), "tau": lrvb.Gamma()}
    local_blocks = {"z": lrvb.Normal()}

    def log_prior(self, t):
        return -(t.beta**2 / 10.0 + LOG_2PI + jnp.log(10.0)) / 2 + gamma_log_p(t.tau, 1.0, 1.0)

    def log_row(self, t, z, row):
        prior = (jnp.log(t.tau) - t.tau * (z.z - t.beta * row.x) ** 2 - LOG_2PI) / 2
        return prior + row.y * z.z - jnp.exp(z.z) - jax.scipy.special.gammaln(row.y + 1)


class RandomSlope(lrvb.models.RandomSlope):
    """The paper's second model, from log p of its groups."""

    global_term = lrvb.Model.global_term
    local_term = lrvb.Model.local_term

    def log_prior(self, t):
        of_beta = -jnp.sum(t.beta**2 / self.beta_var + jnp.log(self.beta_var) + LOG_2PI) / 2
        of_tau = gamma_log_p(t.tau, self.tau_shape, self.tau_rate)
        return of_beta + of_tau + gamma_log_p(t.nu, self.nu_shape, self.nu_rate)

    def log_row(self, t, z, row):
        b, u = t.beta, z.z
        misfit = (
            row.yy - 2 * row.xy @ b + b @ row.xx @ b - 2 * (row.ry - row.rx @ b) * u + row.rr * u**2
        )
        data = (row.n * (jnp.log(t.tau) - LOG_2PI) - t.tau * misfit) / 2
        return data + (jnp.log(t.nu) - LOG_2PI - t.nu * u**2) / 2


class Mixture(lrvb.Model):
    """The paper's third model from log p, with the priors of the case."""

    columns = ("x",)
    global_blocks = {
        "mu": lrvb.MultivariateNormal(2, batch=2),
        "Lambda": lrvb.Wishart(2, batch=2),
        "pi": lrvb.Dirichlet(2),
    }
    local_blocks = {"z": lrvb.Categorical(2)}

    def log_prior(self, t):
        of_mu = jax.scipy.stats.norm.logpdf(t.mu, 0.0, 10.0**0.5)
        of_Lambda = (4.0 - 3) / 2 * jnp.linalg.slogdet(t.Lambda)[1]
        of_Lambda = of_Lambda - jnp.trace(t.Lambda, axis1=1, axis2=2) / 2
        return jnp.sum(of_mu) + jnp.sum(of_Lambda) + 2 * jnp.sum(jnp.log(t.pi))

    def log_row(self, t, z, row):
        e = row.x - t.mu
        square = jnp.einsum("ki,kij,kj->k", e, t.Lambda, e)
        density = (jnp.linalg.slogdet(t.Lambda)[1] - square) / 2 - LOG_2PI
        return jnp.sum(z.z * (jnp.log(t.pi) + density))


PAPER = {
    "NormalPoisson-gaussian": NormalPoisson,
    "RandomSlope": RandomSlope,
    "NormalMixture": Mixture,
}


@pytest.mark.parametrize("name", PAPER)
def test_derived_terms_are_those_written_by_hand(name):
    """Gradients in the moments agree at the optimum and beyond, rows are as linear in z as before."""
    case = BY_NAME[name]
    fit = case.small_fit()
    ours = state_problem(PAPER[name](), case.data)
    theirs = fit.problem
    assert ours.structure.conjugate == theirs.structure.conjugate
    row = {k: np.asarray(c[1]) for k, c in theirs.rows.columns.items()}
    z = np.asarray(next(iter(lrvb.AutodiffSum().bind(theirs).respond(fit.m))).z[1])

    def derivatives(problem, columns):
        structure = problem.structure

        def both(m, z):
            of_row = structure.local_term(problem.traced, m, z, structure.row(columns))
            return structure.global_term(problem.traced, m), of_row

        def jets(m, z):
            return jax.jacrev(both, (0, 1))(m, z)

        with double():  # at two m: the terms are quadratic in them
            points = [jnp.asarray(fit.m), jnp.asarray(1.1 * fit.m)]
            found = [
                jax.tree.leaves(program(m, jnp.asarray(z)))
                for program in [jax.jit(jets)]
                for m in points
            ]
        return [np.asarray(part) for parts in found for part in parts]

    columns = {k: np.asarray(c[1]) for k, c in ours.rows.columns.items()}
    for one, other in zip(derivatives(ours, columns), derivatives(theirs, row), strict=True):
        assert_allclose(one, other, rtol=1e-10, atol=1e-10 * np.abs(other).max())


FAMILIES = [
    lrvb.Normal(batch=3),
    lrvb.Gamma(),
    lrvb.Gamma(batch=2),
    lrvb.Beta(),
    lrvb.Dirichlet(3, batch=2),
    lrvb.Categorical(3),
    lrvb.MultivariateNormal(3, batch=2),
    lrvb.Wishart(3, batch=2),
    lrvb.GaussianChain(4, batch=2),
    lrvb.MarkovChain(4, 3, batch=2),
]


def traced_statistics(family, x):
    """T(x) of all copies, with jax.numpy."""
    one = family.single()
    copies = x.reshape(family.copies, *variable_shape(one))
    if isinstance(family, lrvb.Gamma):
        T = jnp.stack([copies, jnp.log(copies)], axis=1)
    elif isinstance(family, lrvb.Beta):
        T = jnp.stack([jnp.log(copies), jnp.log1p(-copies)], axis=1)
    elif isinstance(family, lrvb.Dirichlet):
        T = jnp.log(copies)
    elif isinstance(family, lrvb.Wishart):
        T = one.flatten(one.Stats(copies, jnp.linalg.slogdet(copies)[1]))
    else:
        T = one.flatten(one.statistics(copies))
    return T.reshape(family.copies, family.size)


@pytest.mark.parametrize("family", FAMILIES, ids=repr)
def test_exact_rules_are_exact_where_log_p_is_linear_in_T(family):
    """E_q of a random η·T is η·m."""
    rng = np.random.default_rng(1)
    eta = rng.normal(size=(family.copies, family.size))
    m = rng.normal(size=(family.copies, family.size))
    rule = exact_rule(family)
    with double():
        moments = family.unflatten(jnp.asarray(m).reshape(*family.batch, family.size))

        def log_p(x):
            return 3.0 + jnp.sum(eta * traced_statistics(family, x))

        found = float(jax.jit(lambda m: rule(family, m, log_p))(moments))
    assert_allclose(found, 3.0 + np.sum(eta * m), rtol=1e-11, atol=1e-11)


def test_sums_over_nodes_and_draws_take_over():
    """E exp x of a normal, E 1/τ of a gamma, E p of a beta, E exp(aᵀx) of a vector."""
    normal, gamma, beta, vector = (
        lrvb.Normal(),
        lrvb.Gamma(),
        lrvb.Beta(),
        lrvb.MultivariateNormal(2),
    )
    with double():
        m = normal.mean(normal.from_params(loc=0.3, scale=0.8))
        assert_allclose(
            jax.jit(lambda m: by_quadrature(normal, m, jnp.exp))(m), np.exp(0.3 + 0.32), rtol=1e-12
        )
        m = gamma.mean(gamma.from_params(shape=5.0, rate=2.0))
        assert_allclose(
            jax.jit(lambda m: by_quadrature(gamma, m, lambda x: 1 / x))(m), 2.0 / 4.0, rtol=1e-9
        )
        m = beta.mean(beta.from_params(a=2.0, b=3.0))
        assert_allclose(jax.jit(lambda m: by_quadrature(beta, m, lambda x: x))(m), 0.4, rtol=1e-9)

        V = np.array([[0.3, 0.1], [0.1, 0.2]])
        m = vector.mean(vector.from_params(loc=np.array([0.1, -0.2]), cov=V))
        a = np.array([0.7, 0.4])
        found = by_draws(vector, m, lambda x: jnp.exp(a @ x))
        exact = np.exp(a @ [0.1, -0.2] + a @ V @ a / 2)
        assert_allclose(found, exact, rtol=2e-3)  # 64 antithetic draws, exact to third order


def test_what_is_not_conjugate_is_noticed():
    """Addends are judged one by one, and each block of them alone."""
    blocks = {"b": lrvb.Normal(), "tau": lrvb.Gamma(), "z": lrvb.Normal()}

    def log_p(rest):
        def at(v):
            conjugate = (jnp.log(v["tau"]) - v["tau"] * (v["z"] - v["b"]) ** 2) / 2
            return conjugate + rest * v["z"] - jnp.exp(v["z"]) - 1 / v["tau"]

        return at

    with double():
        plan = planned(log_p, blocks, [np.asarray(2.0)], "log_row")
    assert {"z": "quadrature"} in plan
    assert {"tau": "quadrature"} in plan
    assert sum("quadrature" in rules.values() for rules in plan) == 2


def test_a_block_without_a_rule_is_named():
    """E π² does not follow from E log π, and there is no rule that would take over."""

    class Odd(lrvb.Model):
        global_blocks = {"pi": lrvb.Dirichlet(2)}

        def log_prior(self, t):
            return -(t.pi[0] ** 2)

    with pytest.raises(lrvb.InvalidModel, match=r"log_prior of Odd is not linear in .* block 'pi'"):
        lrvb.fit(Odd(), None)


def test_an_unknown_variable_is_named():
    """A misspelt variable is answered with those that there are."""

    class Misspelt(lrvb.Model):
        global_blocks = {"beta": lrvb.Normal()}

        def log_prior(self, t):
            return -(t.bate**2)

    with pytest.raises(
        lrvb.InvalidModel, match=r"no variable 'bate'.* The variables are: t\.beta\."
    ):
        lrvb.fit(Misspelt(), None)
