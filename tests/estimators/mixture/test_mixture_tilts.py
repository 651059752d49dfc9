"""Covariances and functions of a mixture by tilting its log joint, and by draws."""

from __future__ import annotations

import numpy as np
from numpy.testing import assert_allclose

import lrvb
from differences import central
from lrvb.models.gaussian_mixture import NormalMixture
from lrvb.numerics.double import double
from mixtures import fitted, overlapping


class TiltedMixture(NormalMixture):
    """The mixture with its log joint tilted by direction · T."""

    def global_term(self, m):
        parts = [m.mu.x, m.mu.xx, m.Lambda.x, m.Lambda.logdet_x, m.pi.log_x]
        tilts = [self.t_mu, self.t_mumu, self.t_Lambda, self.t_logdet, self.t_pi]
        tilt = sum((t * part).sum() for t, part in zip(tilts, parts, strict=True))
        return super().global_term(m) + tilt


def refit(ours, direction):
    """The fit's own optimum with L tilted by direction · m."""
    inner = ours.posterior_.fit
    model = object.__new__(TiltedMixture)
    named = inner.alpha.natural(np.asarray(direction))
    model.__dict__.update(
        vars(inner.model),
        t_mu=np.asarray(named["mu"].x),
        t_mumu=np.asarray(named["mu"].xx),
        t_Lambda=np.asarray(named["Lambda"].x),
        t_logdet=np.asarray(named["Lambda"].logdet_x),
        t_pi=np.asarray(named["pi"].log_x),
    )
    return lrvb.fit(model, inner.problem.rows, init=inner, tol=1e-9)


def slopes(ours, value, coordinates, h=0.005):
    """d value(refit)/dt for tilts along flat coordinates, each in units of 1/sd: error O(h²)."""
    sd = np.sqrt(np.diag(ours.posterior_.response.Sigma))
    tilts = [np.eye(len(sd))[i] / sd[i] for i in coordinates]
    return np.array([central(lambda t, d=d: value(refit(ours, t * d)), h) for d in tilts])


def test_covariance_is_the_derivative_of_the_mean():
    """eq:lrvb_derivative_defn for one μ, one Λ and one log π, among all quantities."""
    ours = fitted()
    posterior = ours.posterior_
    names = ["mu[0,1]", "Lambda[1,0,1]", "log(pi[0])"]
    at = [posterior.estimate.labels.index(name) for name in names]
    inner = posterior.response
    sd = np.sqrt(np.diag(inner.Sigma))
    slope = slopes(ours, lambda fit: fit.m, at)
    assert_allclose(slope / sd, inner.Sigma[at] / np.outer(sd[at], sd), atol=1e-4)


def brute_force_functions(ours, x):
    """Every ready-made function's value from a refit's usual parameters, in NumPy."""
    s = ours._scaling.scale
    z = ours._scaling.inward(np.asarray(x))

    def value(fit):
        params, m = fit.params(), fit.moments
        mu, Lambda = np.asarray(m.mu.x), np.asarray(m.Lambda.x)
        alpha = params["pi"]["concentration"]
        dof = params["Lambda"]["dof"]
        S = np.linalg.inv(params["Lambda"]["scale"]) / (dof - 3)[:, None, None] * np.outer(s, s)
        sd = np.sqrt(np.diagonal(S, axis1=1, axis2=2))
        d = mu[0] - mu[1]
        logits = [
            float(m.pi.log_x[k] + 0.5 * m.Lambda.logdet_x[k])
            - 0.5 * (z - mu[k]) @ Lambda[k] @ (z - mu[k])
            - 0.5 * np.sum(Lambda[k] * params["mu"]["cov"][k])
            for k in (0, 1)
        ]
        p = np.exp(logits - np.logaddexp(*logits))
        return np.concatenate(
            [
                alpha / alpha.sum(),
                S[:, [0, 0, 1], [0, 1, 1]].reshape(-1),
                sd.reshape(-1),
                S[:, 0, 1] / sd.prod(axis=1),
                [np.sqrt(d @ (Lambda[0] + Lambda[1]) @ d / 2)],
                p,
            ]
        )

    return value


def test_ready_made_functions_by_tilt_refit_and_difference():
    """app:function_covariance: the slopes under all tilts are JΣ̂, so slopes Σ̂⁻¹ slopesᵀ = JΣ̂Jᵀ."""
    ours, x = fitted(), [1.2, 0.9]
    tables = [
        ours.component_weights(),
        ours.component_covariances(),
        ours.component_sds(),
        ours.component_correlations(),
        ours.separation(0, 1).to_frame().T,
        ours.membership(x),
    ]
    mean = np.concatenate([table["mean"] for table in tables])
    sd = np.concatenate([table["sd"] for table in tables])
    value = brute_force_functions(ours, x)
    assert_allclose(mean, value(ours.posterior_.fit), rtol=1e-9)
    Sigma = ours.posterior_.response.Sigma
    scale = np.sqrt(np.diag(Sigma))
    slope = slopes(ours, value, range(len(Sigma))).T
    corr = Sigma / np.outer(scale, scale)
    variance = np.einsum("fi,if->f", slope, np.linalg.solve(corr, slope.T))
    assert_allclose(np.sqrt(variance), sd, rtol=1e-4)


def test_functions_against_draws():
    """E Σ by draws from q(Λ); sds by draws from the linear-response posterior."""
    ours = fitted()
    alpha, inner = ours.posterior_.fit.alpha, ours.posterior_.fit
    family = alpha.blocks["Lambda"]
    s = ours._scaling.scale
    rng = np.random.default_rng(0)
    means = ours.component_covariances()["mean"].to_numpy().reshape(2, 3)
    for k in (0, 1):
        eta = type(inner.moments.Lambda)(
            *(np.asarray(part)[k] for part in alpha.natural(inner.eta)["Lambda"])
        )
        S = np.linalg.inv(family.sample(eta, rng, 40_000)) * np.outer(s, s)
        error = S.std(axis=0) / np.sqrt(40_000)
        assert (np.abs(S.mean(axis=0) - means[k][[[0, 1], [1, 2]]]) < 5 * error).all()
    draws = ours.posterior_.draws(20_000, 1)
    S = np.linalg.inv(draws["Lambda"])
    spread = np.sqrt(np.diagonal(S, axis1=2, axis2=3))
    d = draws["mu"][:, 0] - draws["mu"][:, 1]
    average = draws["Lambda"].mean(axis=1)
    distance = np.sqrt(np.einsum("na,nab,nb->n", d, average, d))
    # the delta method against skewed draws of 120 to 180 rows' worth of information
    assert_allclose(ours.component_weights()["sd"], draws["pi"].std(axis=0), rtol=0.05)
    assert_allclose(ours.component_sds()["sd"], spread.std(axis=0).reshape(-1), rtol=0.1)
    assert_allclose(
        ours.component_correlations()["sd"],
        (S[:, :, 0, 1] / spread.prod(axis=2)).std(axis=0),
        rtol=0.1,
    )
    assert_allclose(ours.separation(0, 1)["sd"], distance.std(), rtol=0.1)


def test_membership_is_the_response_of_a_row():
    """At a row of X the probability's sd is √(RΣ̂Rᵀ): what its parameters leave uncertain."""
    X, _ = overlapping()
    ours = fitted()
    inner = ours.posterior_.response
    row = int(np.abs(ours.predict_proba(X)[:, 0] - 0.5).argmin())
    table = ours.membership(X[row])
    with double():
        chunk = next(
            lrvb.AutodiffSum().bind(inner.fit.problem).respond(inner.fit.m, np.array([row]))
        )
    assert_allclose(table["mean"], chunk.z[0], rtol=1e-9)
    variance = np.diag(chunk.R[0] @ inner.Sigma @ chunk.R[0].T)
    assert_allclose(table["sd"], np.sqrt(variance), rtol=1e-7)
