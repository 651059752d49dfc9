"""A mixture of two normals with ordered means, in PyMC."""

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.transforms import ordered


def build(N, y, **unused):
    """The model with its data."""
    y = np.asarray(y, float)
    with pm.Model() as model:
        mu = pm.Normal("mu", 0.0, 2.0, shape=2, transform=ordered, initval=[-1.0, 1.0])
        sigma = pm.HalfNormal("sigma", 2.0, shape=2)
        theta = pm.Beta("theta", 5.0, 5.0)
        pm.NormalMixture("obs", pt.stack([theta, 1 - theta]), mu, sigma, observed=y)
    return model
