"""Earnings on height, flat priors, in PyMC."""

import numpy as np
import pymc as pm


def build(earn, height, **unused):
    """The model with its data."""
    earn, height = np.asarray(earn, float), np.asarray(height, float)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=2)
        sigma = pm.HalfFlat("sigma")
        pm.Normal("obs", beta[0] + beta[1] * height, sigma, observed=earn)
    return model
