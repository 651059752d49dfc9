"""Weights of mesquite bushes, flat priors, in PyMC."""

import numpy as np
import pymc as pm


def build(weight, diam1, diam2, canopy_height, total_height, density, group, **unused):
    """The model with its data."""
    columns = (diam1, diam2, canopy_height, total_height, density, group)
    X = np.stack([np.ones(len(weight)), *(np.asarray(c, float) for c in columns)], -1)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=7)
        sigma = pm.HalfFlat("sigma")
        pm.Normal("obs", pm.math.dot(X, beta), sigma, observed=np.asarray(weight, float))
    return model
