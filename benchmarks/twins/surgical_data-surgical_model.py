"""Deaths in twelve hospitals, in PyMC."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt


def build(N, r, n, **unused):
    """The model with its data."""
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 1000.0)
        sigmasq = pm.InverseGamma("sigmasq", 0.001, 0.001)
        sigma = pm.Deterministic("sigma", pt.sqrt(sigmasq))
        b = pm.Normal("b", mu, sigma, shape=N)
        pm.Deterministic("p", pm.math.invlogit(b))
        pm.Binomial("obs", np.asarray(n), logit_p=b, observed=np.asarray(r))
    return model
