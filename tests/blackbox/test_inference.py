"""From a log density to a posterior: what is exact, what is checked, and what is refused."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import lrvb
from blackbox.densities import covariance


@pytest.fixture(scope="module")
def skewed() -> lrvb.Posterior:
    """log τ ~ Gamma's log, shape 4 and rate 2; x | τ normal with precision τ."""

    def f(v):
        tau = jnp.exp(v["log_tau"])
        return 4 * v["log_tau"] - 2 * tau + 2 * v["log_tau"] / 2 - tau * (v["x"] ** 2).sum() / 2

    start = {"log_tau": 0.0, "x": np.ones(2)}
    return lrvb.from_log_density(f, start).infer(functions={"tau": lambda v: jnp.exp(v["log_tau"])})


def test_a_gaussian_is_exact():
    """HMC's control variates and linear response both have no error: prop:lrvb_mvn, and Stein's."""
    S, m = covariance(4), np.array([1.0, -2.0, 30.0, 4.0])
    P = np.linalg.inv(S)
    posterior = lrvb.from_log_density(lambda x: -0.5 * (x - m) @ P @ (x - m), np.zeros(4)).infer()
    np.testing.assert_allclose(posterior.cov(), S, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(posterior.cov(method="certified"), S, rtol=1e-6, atol=1e-6)
    summary = posterior.summary()
    np.testing.assert_allclose(summary["mean"], m, atol=1e-6)
    np.testing.assert_allclose(summary["mfvb_sd"], 1 / np.sqrt(np.diag(P)), rtol=0.01)
    assert list(summary.columns) == ["mean", "sd", "mfvb_sd", "lower", "upper", "verdict"]
    assert list(summary.index) == ["x[0]", "x[1]", "x[2]", "x[3]"]
    assert (summary["verdict"] == "trust").all()
    certificate = posterior.certificate
    assert certificate.log_evidence == pytest.approx(0.5 * np.linalg.slogdet(2 * np.pi * S)[1])
    assert certificate.method == "hmc"
    assert certificate.modes == (0.0,)
    assert certificate.gradients > 1000
    assert certificate.seconds > 0
    assert (certificate.r_hat < 1.05).all()


def test_moments_of_a_skewed_posterior(skewed):
    """τ ~ Gamma(4, 2): mean 2, sd 1; x has E[1/τ] = 2/3 as variance. Four standard errors."""
    summary = skewed.certificate.summary()
    for name, mean, sd in (("tau", 2.0, 1.0), ("x[0]", 0.0, np.sqrt(2 / 3))):
        row = summary.loc[name]
        assert abs(row["mean"] - mean) < 4 * row["mcse"] + 1e-3
        assert row["sd"] == pytest.approx(sd, rel=0.06)
    quantiles = skewed.summary(0.9)[["lower", "upper"]].loc["tau"]
    np.testing.assert_allclose(quantiles, [0.683, 3.877], rtol=0.08)  # of the gamma distribution


def test_everything_that_posteriors_have(skewed, tmp_path):
    """Covariances of functions, draws, ArviZ, files and figures."""
    cov = skewed.of(lambda m: m.tau.x * 2)
    assert float(cov) == pytest.approx(4 * float(skewed.cov("tau").iloc[0, 0]))
    table = skewed.certificate.of(lambda m: m.x.x[0] ** 2)
    assert table["mean"].item() == pytest.approx(2 / 3, abs=0.08)
    draws = skewed.draws(500, seed=1)
    np.testing.assert_allclose(np.exp(draws["log_tau"]), draws["tau"])
    assert draws["x"].shape == (500, 2)
    assert skewed.certificate.draws(10)["x"].shape == (10, 2)
    tree = skewed.to_arviz(n=50)
    assert tree.posterior["x"].shape == (1, 50, 2)
    assert tree.posterior.attrs["sampling"] == "HMC"
    again = lrvb.load(skewed.save(tmp_path / "posterior.npz"))
    assert again.summary().equals(skewed.summary())
    assert again.certificate.gradients == skewed.certificate.gradients
    assert again.certificate.summary().equals(skewed.certificate.summary())


def test_without_the_check():
    """Linear response's numbers, no verdict, and draws of the Gaussian."""
    posterior = lrvb.from_log_density(lambda x: -0.5 * x @ x, np.zeros(2)).infer(check=False)
    assert posterior.certificate is None
    assert (posterior.summary()["verdict"] == "not checked").all()
    with pytest.raises(lrvb.InvalidModel, match=r"check=True\) checks it"):
        posterior.certify()
    np.testing.assert_allclose(posterior.draws(4000)["x"].std(axis=0), 1, rtol=0.06)


def test_two_modes_end_trust():
    """A mode that no chain has seen holds half of the evidence."""

    def f(x):
        return jnp.logaddexp(-((x - 4) ** 2).sum() / 2, -((x + 4) ** 2).sum() / 2)

    posterior = lrvb.from_log_density(f, np.ones(2)).infer()
    assert len(posterior.certificate.modes) == 2
    assert (posterior.summary()["verdict"] == "do not trust").all()
    assert "50 % of the evidence" in posterior.certificate.summary()["why"].iloc[0]


@pytest.mark.parametrize("seed", range(4))
def test_an_infinite_variance_has_quantiles_only(seed):
    """A t with 1.5 degrees of freedom: no sd, quantiles ±3.705. What far rays say is no matter of draws."""
    posterior = lrvb.from_log_density(
        lambda x: -1.25 * jnp.log1p(x[0] ** 2 / 1.5), np.ones(1)
    ).infer(seed=seed)
    index = posterior.certificate.tail_index["x[0]"]
    assert index > 1 / 1.5 - 1e-2  # 20 sds out the power law holds to (1/20)²
    row = posterior.summary(0.9).loc["x[0]"]
    assert row["verdict"] == "do not trust"
    assert np.isnan(row["sd"])
    np.testing.assert_allclose([row["lower"], row["upper"]], [-3.705, 3.705], rtol=0.25)


def test_draws_have_no_tail_where_a_quantity_ends(tmp_path):
    """A function of one coordinate with values in (0, 1), whose moments are sums; a file says the same."""

    def f(x):
        return -jnp.log(jnp.cosh(x[0]))

    share = {"share": lambda v: 1 / (1 + 0.1 * jnp.exp(v["x"][0]))}
    posterior = lrvb.from_log_density(f, np.zeros(1)).infer(functions=share)
    x = np.linspace(-40, 40, 8001)
    p, g = 1 / np.cosh(x) / (1 / np.cosh(x)).sum(), 1 / (1 + 0.1 * np.exp(x))
    sd = np.sqrt(p @ (g - p @ g) ** 2)
    found = posterior.summary().loc["share"]
    assert found["verdict"] == "trust"
    assert abs(found["mean"] - p @ g) < 0.05 * sd
    assert found["sd"] == pytest.approx(sd, rel=0.05)
    assert posterior.certificate.tail_index["share"] == 0.0
    assert posterior.certificate.tail_index["x[0]"] != 0.0
    posterior.save(tmp_path / "share.lrvb")
    again = lrvb.load(tmp_path / "share.lrvb").certificate
    assert (again.tail_index == posterior.certificate.tail_index).all()


def test_an_edge_ends_trust():
    """A density that ends where it is high: averages are plain, and nothing is trusted."""

    def f(x):
        return jnp.where(x[0] > 0, -x @ x / 2, -jnp.inf)

    posterior = lrvb.from_log_density(f, np.ones(2)).infer()
    assert not (posterior.summary()["verdict"] == "trust").any()


def test_the_users_precision_is_left_alone():
    """Everything is double inside, whatever JAX's setting is outside."""
    before = jnp.zeros(1).dtype
    posterior = lrvb.from_log_density(lambda x: -0.5 * x @ x, jnp.zeros(1)).infer(check=False)
    assert jnp.zeros(1).dtype == before
    assert posterior.estimate.Sigma.dtype == np.float64
    assert not jax.config.read("jax_enable_x64")


@pytest.mark.parametrize(
    ("f", "start", "sentence"),
    [
        (lambda x: jnp.log(-1 - x @ x), np.zeros(2), "not a number at any of 64 starting points"),
        (lambda x: -x @ x + 0 * jnp.sqrt(x - x).sum(), np.zeros(2), "or its gradient is not a"),
        (lambda x: -(x**2), np.zeros(2), "must be one number"),
        (lambda x: None, np.zeros(2), "is None.*`return`"),
        (lambda x: -np.sum(np.asarray(x) ** 2), np.zeros(2), "TracerArray.* Write it in jax.numpy"),
        (
            lambda x: -(x[0] ** 2) if x[0] > 0 else 0.0,
            np.zeros(1),
            "TracerBool.* Write it in jax.numpy",
        ),
        (lambda x: 1 / 0, np.zeros(2), "raised ZeroDivisionError"),
        (lambda x: -(x[0] ** 2), np.zeros(2), "has no finite integral"),
        (lambda x: -((x[0] - x[1]) ** 2), np.zeros(2), "has no finite integral"),
        (lambda x: -x @ x, np.zeros(0), "start is empty"),
        (lambda x: -x @ x, [np.nan], "finite numbers"),
        (lambda x: -x @ x, "here", "array of numbers"),
        (3, np.zeros(2), "must be a function"),
        (lambda x: -x @ x, np.zeros(1001), "is measured to 1000"),
    ],
)
def test_sentences(f, start, sentence):
    with pytest.raises(lrvb.InvalidModel, match=sentence):
        lrvb.from_log_density(f, start).infer()


def test_functions_of_moments():
    """`of` takes moments, `functions` values: the delta method is the same, and a sentence says how."""
    model = lrvb.from_log_density(lambda v: -(v["a b"] ** 2) - v["c"] ** 2, {"a b": 0.0, "c": 0.0})
    posterior = model.infer(check=False, functions={"d": lambda v: v["a b"] - 2 * v["c"]})
    found = posterior.of({"e": lambda m: m["a b"].x - 2 * m.c.x})
    np.testing.assert_allclose(found["sd"], posterior.sd("d"), rtol=1e-6)
    with pytest.raises(lrvb.InvalidModel, match=r"such as m\['a b'\]\.x, and jax.numpy"):
        posterior.of(lambda m: m["a b"] / m["c"])


def test_sentences_of_infer():
    model = lrvb.from_log_density(lambda x: -x @ x, np.zeros(2))
    with pytest.raises(lrvb.InvalidModel, match=r"functions\['a'\] raised KeyError"):
        model.infer(functions={"a": lambda v: v["y"]})
    with pytest.raises(lrvb.InvalidModel, match="which the model has already"):
        model.infer(functions={"x": lambda v: v["x"]})
    with pytest.raises(lrvb.InvalidModel, match="must map names to functions"):
        model.infer(functions=[1])
    with pytest.raises(lrvb.InvalidModel, match="seed=-1"):
        model.infer(seed=-1)
    with pytest.raises(lrvb.InvalidModel, match="check='no'"):
        model.infer(check="no")
    assert "2 dimensions; x" in repr(model)


def test_a_mirrored_mode_ends_trust_where_laplace_misses_its_evidence():
    """Loadings and factors keep p if all change their sign: half of the evidence is in the other mode.

    Laplace's method at the modes is e⁴ and more too low, as each factor's width follows the loadings.
    """
    rng = np.random.default_rng(0)
    truth = np.array([1.0, 0.8, 1.2, -0.7])
    Y = rng.normal(size=(30, 1)) * truth + 0.5 * rng.normal(size=(30, 4))

    def log_p(v):
        residual = (Y - v["f"][:, None] * v["w"]) / 0.5
        return -0.5 * ((residual**2).sum() + (v["f"] ** 2).sum() + (v["w"] ** 2).sum())

    start = {"w": np.zeros(4), "f": np.zeros(30)}
    found = lrvb.from_log_density(log_p, start).infer().certificate
    assert found.modes == pytest.approx((0.0, 0.0), abs=0.1)
    assert found.others == pytest.approx(0.5, abs=0.1)
    assert (found.summary()["verdict"] == "do not trust").all()
