"""A regression like that of the prices of diamonds, in PyMC."""

import pymc as pm
from diamonds_like import diamonds_like


def build():
    """The model with its data."""
    made = diamonds_like()
    with pm.Model() as model:
        beta = pm.Normal("beta", made.mean, made.sd)
        sigma = pm.HalfNormal("sigma", 10.0)
        pm.Normal("y", pm.math.dot(made.X, beta), sigma, observed=made.y)
    return model
