"""GARCH(1, 1), in PyMC."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt


def build(T, y, sigma1, **unused):
    """The model with its data."""
    y = np.asarray(y, float)

    def step(before, variance, mu, alpha0, alpha1, beta1):
        return alpha0 + alpha1 * (before - mu) ** 2 + beta1 * variance

    with pm.Model() as model:
        mu = pm.Flat("mu")
        alpha0 = pm.HalfFlat("alpha0")
        alpha1 = pm.Uniform("alpha1", 0.0, 1.0)
        share = pm.Uniform("share", 0.0, 1.0)
        beta1 = pm.Deterministic("beta1", (1 - alpha1) * share)
        pm.Potential("jacobian", pt.log1p(-alpha1))
        first = pt.as_tensor(float(sigma1) ** 2, dtype="float64")
        rest, _ = pytensor.scan(step, pt.as_tensor(y[:-1]), first, [mu, alpha0, alpha1, beta1])
        variance = pt.concatenate([first[None], rest])
        pm.Normal("obs", mu, pt.sqrt(variance), observed=y)
    return model
