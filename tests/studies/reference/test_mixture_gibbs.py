"""The mixture's Gibbs sampler against enumeration, closed forms, importance sampling and its prior."""

import numpy as np
from exactness import batch_errors
from numpy.testing import assert_array_equal
from scipy import stats
from scipy.special import digamma, gammaln, logsumexp, polygamma

from lrvb.studies.reference import MixtureDraws, mixture_conditionals, mixture_gibbs, simulate


def assert_within_error(score):
    """No score is above 5, and most are about one."""
    assert np.abs(score).max() < 5
    assert np.sqrt(np.mean(score**2)) < 1.7


def assert_known(draws, mean, cov):
    """Means and covariances of a chain (S, q) are those known, within Monte Carlo error."""
    shift = np.asarray(draws) - mean
    i, j = np.triu_indices(len(mean))
    found, error = batch_errors(np.hstack([shift, shift[:, i] * shift[:, j]]))
    score = (found - np.concatenate([0 * mean, cov[i, j]])) / error
    assert_within_error(score)


def component_by_quadrature(x, m0, kappa, dof, scale):
    """Evidence of rows x in one dimension, and moments (μ, Λ, log Λ) given them, by quadrature.

    μ is integrated in closed form given Λ, Λ ~ Gamma(dof / 2, 1 / (2 scale)) on a grid of log Λ.
    """
    t, step = np.linspace(-14, 8, 400, retstep=True)
    L, n = np.exp(t), len(x)
    Q, b = n * L + kappa, L * x.sum() + kappa * m0
    log_joint = (
        stats.gamma(dof / 2, scale=2 * scale).logpdf(L)
        + t
        + 0.5 * n * np.log(L / (2 * np.pi))
        + 0.5 * (np.log(kappa / Q) + b * b / Q - kappa * m0**2 - L * (x @ x))
    )
    log_evidence = logsumexp(log_joint) + np.log(step)
    p = step * np.exp(log_joint - log_evidence)
    given = np.stack([b / Q, L, t])
    second = (p * given) @ given.T
    second[0, 0] += p @ (1 / Q)
    return log_evidence, given @ p, second


def test_a_few_rows_by_enumeration():
    """All 2⁶ ways to divide six rows; exact moments of every quantity, labels switching freely."""
    x = np.array([-1.3, -0.9, -0.4, 0.3, 0.8, 1.9])
    m0, kappa, dof, scale, alpha = 0.2, 0.7, 5.0, 0.4, np.array([3.0, 1.2])
    log_weight, means, seconds = [], [], []
    for code in range(2**6):
        z = (code >> np.arange(6)) & 1
        a = alpha + np.bincount(z, minlength=2)
        pi_mean = digamma(a) - digamma(a.sum())
        pi_cov = np.diag(polygamma(1, a)) - polygamma(1, a.sum())
        parts = [component_by_quadrature(x[z == k], m0, kappa, dof, scale) for k in (0, 1)]
        log_weight.append(parts[0][0] + parts[1][0] + gammaln(a).sum())
        mean = np.concatenate([parts[0][1], parts[1][1], pi_mean])
        second = np.outer(mean, mean)  # the three blocks are independent given z
        second[:3, :3], second[3:6, 3:6] = parts[0][2], parts[1][2]
        second[6:, 6:] += pi_cov
        means.append(mean)
        seconds.append(second)
    weight = np.exp(log_weight - logsumexp(log_weight))
    mean = weight @ np.array(means)
    cov = np.tensordot(weight, seconds, 1) - np.outer(mean, mean)

    chain = mixture_gibbs.sample(
        np.random.default_rng(0),
        x[:, None],
        np.array([0, 0, 0, 1, 1, 1]),
        draws=20_000,
        mean_prior=m0,
        mean_precision_prior=kappa,
        wishart_dof_prior=dof,
        wishart_scale_prior=scale,
        weight_concentration_prior=alpha,
    )
    names = ["mu[0,0]", "Lambda[0,0,0]", "logdet(Lambda[0])"]
    names += [name.replace("[0", "[1") for name in names] + ["log(pi[0])", "log(pi[1])"]
    assert_known(chain.scalars[names], mean, cov)


def test_one_component_has_its_closed_form():
    """Flat priors, K = 1: Λ ~ Wishart(N + P, S⁻¹), S about the mean, and Cov μ = S / N(N − 1)."""
    N, P = 12, 2
    X = np.random.default_rng(1).standard_normal((N, P)) @ [[1.0, 0.4], [0.0, 0.7]] + 100
    S = (N - 1) * np.cov(X.T)
    chain = mixture_gibbs.sample(np.random.default_rng(2), X, np.zeros(N, int), draws=10_000)
    W, nu = np.linalg.inv(S), N + P
    i, j = np.triu_indices(P)
    cov = np.zeros((5, 5))  # μ and Λ are uncorrelated
    cov[:2, :2] = S / (N * (N - 1))
    cov[2:, 2:] = nu * (W[np.ix_(i, i)] * W[np.ix_(j, j)] + W[np.ix_(i, j)] * W[np.ix_(j, i)])
    draws = np.hstack([chain.mu[:, 0], chain.Lambda[:, 0][:, i, j]])
    assert_known(draws, np.concatenate([X.mean(0), nu * W[i, j]]), cov)
    assert_array_equal(chain.log_pi, 0)
    assert np.isnan(chain.ess["log(pi[0])"])


def test_parameters_redrawn_with_their_data_keep_their_prior():
    """Draw x | z, μ, Λ and then a sweep, by turns: what comes out is the prior (Geweke, 2004)."""
    rng, N, K, P = np.random.default_rng(3), 5, 2, 2
    scale, kappa, dof, alpha = np.array([[0.3, 0.1], [0.1, 0.2]]), 0.8, 7.0, np.array([2.0, 4.0])
    prior = mixture_conditionals.make_priors(K, P, [0.5, -1.0], kappa, dof, scale, alpha)
    z, mu, Lambda = np.array([0, 0, 1, 1, 1]), np.zeros((K, P)), np.tile(np.eye(P), (K, 1, 1))
    draws = []
    for _ in range(15_000):
        root = np.linalg.cholesky(Lambda).transpose(0, 2, 1)
        X = mu[z] + np.linalg.solve(root[z], rng.standard_normal((N, P, 1)))[:, :, 0]
        phi = mixture_gibbs.features(X)
        onto = (z[:, None] == np.arange(K)).astype(float)
        sums = mixture_gibbs.split(onto.T @ phi.T, P)
        Lambda, logdet = mixture_conditionals.draw_precisions(rng, sums, mu, prior)
        mu = mixture_conditionals.draw_means(rng, sums, Lambda, prior)
        log_pi = mixture_conditionals.draw_weights(rng, sums, prior)
        odds = mixture_gibbs.log_odds(phi, mu, Lambda, logdet, log_pi)
        z = mixture_gibbs.draw_labels(rng, odds).sum(0).astype(int)
        draws.append(np.concatenate([mu.ravel(), Lambda[:, [0, 0, 1], [0, 1, 1]].ravel(), log_pi]))
    i, j = np.array([0, 0, 1]), np.array([0, 1, 1])
    spread = scale[np.ix_(i, i)] * scale[np.ix_(j, j)] + scale[np.ix_(i, j)] * scale[np.ix_(j, i)]
    cov = np.zeros((12, 12))
    cov[:4, :4] = np.eye(4) / kappa
    cov[4:10, 4:10] = np.kron(np.eye(K), dof * spread)
    cov[10:, 10:] = np.diag(polygamma(1, alpha)) - polygamma(1, alpha.sum())
    weights = digamma(alpha) - digamma(alpha.sum())
    mean = np.concatenate([np.tile([0.5, -1.0], K), np.tile(dof * scale[i, j], K), weights])
    assert_known(np.array(draws), mean, cov)


def unfold(u):
    """Parameters of two components in the plane from real coordinates (n, 11), and log |Jacobian|.

    Those are μ, the Cholesky factors of Λ with the logarithms of their diagonals, and logit π₀.
    """
    n = len(u)
    mu, factor, logit = u[:, :4].reshape(n, 2, 2), u[:, 4:10].reshape(n, 2, 3), u[:, 10]
    first, low, second = factor[..., 0], factor[..., 1], factor[..., 2]
    C = np.zeros((n, 2, 2, 2))
    C[..., 0, 0], C[..., 1, 0], C[..., 1, 1] = np.exp(first), low, np.exp(second)
    log_pi = -np.logaddexp(0, np.stack([-logit, logit], axis=1))
    jacobian = (3 * first + 2 * second).sum(1) + log_pi.sum(1)
    logdet = 2 * (first + second)
    return MixtureDraws(mu, C @ C.transpose(0, 1, 3, 2), logdet, log_pi, n, 0.0), jacobian


def fold(chain):
    """Real coordinates (n, 11) of a chain."""
    n, C = len(chain.mu), np.linalg.cholesky(chain.Lambda)
    factor = np.stack([np.log(C[..., 0, 0]), C[..., 1, 0], np.log(C[..., 1, 1])], axis=2)
    logit = chain.log_pi[:, 0] - chain.log_pi[:, 1]
    return np.column_stack([chain.mu.reshape(n, 4), factor.reshape(n, 6), logit])


def test_it_agrees_with_importance_sampling():
    """Sixty rows with z summed out: the joint density itself, at draws from a heavier one."""
    rng = np.random.default_rng(4)
    data = simulate.scaled_mixture(rng, 60, K=2, P=2)
    X = data["X"] * [1.0, 2.0] + data["z"][:, None]
    scale = np.array([[0.5, 0.1], [0.1, 0.3]])
    chain = mixture_gibbs.sample(
        rng,
        X,
        data["z"],
        draws=15_000,
        mean_prior=np.array([0.3, 1.0]),
        mean_precision_prior=0.1,
        wishart_dof_prior=5.0,
        wishart_scale_prior=scale,
        weight_concentration_prior=np.array([4.0, 2.0]),
    )
    u = fold(chain)
    proposal = stats.multivariate_t(u.mean(0), 1.2 * np.cov(u.T), df=8, seed=rng)
    v = proposal.rvs(30_000)
    drawn, log_weight = unfold(v)
    log_weight -= proposal.logpdf(v)
    log_weight += stats.norm(np.array([0.3, 1.0]), 0.1**-0.5).logpdf(drawn.mu).sum((1, 2))
    log_weight += drawn.log_pi @ [3.0, 1.0]
    trace = np.sum(np.linalg.inv(scale) * drawn.Lambda, axis=(2, 3))
    log_weight += (drawn.logdet_Lambda - 0.5 * trace).sum(1)  # dof − P − 1 = 2
    shift = X[:, None, None, :] - drawn.mu
    squares = np.sum(shift * (drawn.Lambda @ shift[..., None])[..., 0], -1)
    joint = drawn.log_pi + 0.5 * drawn.logdet_Lambda - 0.5 * squares
    log_weight += np.logaddexp(joint[..., 0], joint[..., 1]).sum(0)
    weight = np.exp(log_weight - logsumexp(log_weight))
    assert 1 / (weight @ weight) > 10_000  # that many independent draws

    values = drawn.scalars.to_numpy()
    mean = weight @ values
    squares = (values - mean) ** 2
    sd = np.sqrt(weight @ squares)
    mean_error = np.sqrt(weight**2 @ squares)
    sd_error = np.sqrt(weight**2 @ (squares - sd**2) ** 2) / (2 * sd)
    found = chain.summary()
    assert found.ess.min() > 1000
    mean_score = (found["mean"] - mean) / np.hypot(found.mean_error, mean_error)
    sd_score = (found["sd"] - sd) / np.hypot(found.sd_error, sd_error)
    assert_within_error(np.concatenate([mean_score, sd_score]))
