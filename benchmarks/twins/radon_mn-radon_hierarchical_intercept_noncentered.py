"""Radon in the counties of Minnesota, non-centred, in PyMC."""

import numpy as np
import pymc as pm


def build(J, county_idx, log_uppm, floor_measure, log_radon, **unused):
    """The model with its data."""
    county = np.asarray(county_idx) - 1
    uranium, floor, y = (np.asarray(a, float) for a in (log_uppm, floor_measure, log_radon))
    with pm.Model() as model:
        sigma_alpha = pm.HalfNormal("sigma_alpha", 1.0)
        sigma_y = pm.HalfNormal("sigma_y", 1.0)
        mu_alpha = pm.Normal("mu_alpha", 0.0, 10.0)
        beta = pm.Normal("beta", 0.0, 10.0, shape=2)
        raw = pm.Normal("alpha_raw", 0.0, 1.0, shape=J)
        alpha = pm.Deterministic("alpha", mu_alpha + sigma_alpha * raw)
        pm.Normal("obs", alpha[county] + uranium * beta[0] + floor * beta[1], sigma_y, observed=y)
    return model
