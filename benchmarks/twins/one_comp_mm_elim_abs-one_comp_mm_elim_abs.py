"""Absorption and saturable elimination of a drug, Runge–Kutta on a fixed grid, in PyMC."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

SUBSTEPS = 16


def build(t0, D, V, times, C_hat, **unused):
    """The model with its data."""
    knots = np.concatenate([[t0], np.asarray(times, float)])
    h = np.repeat(np.diff(knots) / SUBSTEPS, SUBSTEPS)
    at = np.repeat(knots[:-1], SUBSTEPS) + h * np.tile(np.arange(SUBSTEPS), len(times))

    def step(s, h, c, k_a, K_m, V_m):
        def field(s, c):
            return pt.exp(-k_a * s) * D * k_a / V - (V_m / V) * c / (K_m + c)

        k1 = field(s, c)
        k2 = field(s + h / 2, c + h / 2 * k1)
        k3 = field(s + h / 2, c + h / 2 * k2)
        k4 = field(s + h, c + h * k3)
        return c + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)

    with pm.Model() as model:
        k_a, K_m, V_m, sigma = (pm.HalfCauchy(name, 1.0) for name in ("k_a", "K_m", "V_m", "sigma"))
        start = pt.as_tensor(0.0, dtype="float64")
        c, _ = pytensor.scan(step, [pt.as_tensor(at), pt.as_tensor(h)], start, [k_a, K_m, V_m])
        seen = pt.maximum(c[SUBSTEPS - 1 :: SUBSTEPS], 1e-12)
        pm.LogNormal("obs", pt.log(seen), sigma, observed=np.asarray(C_hat, float))
    return model
