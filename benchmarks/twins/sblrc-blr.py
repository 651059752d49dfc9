"""A regression of correlated columns, in PyMC."""

import numpy as np
import pymc as pm


def build(X, y, **unused):
    """The model with its data."""
    X = np.asarray(X, float)
    with pm.Model() as model:
        beta = pm.Normal("beta", 0.0, 10.0, shape=X.shape[1])
        sigma = pm.HalfNormal("sigma", 10.0)
        pm.Normal("obs", pm.math.dot(X, beta), sigma, observed=np.asarray(y, float))
    return model
