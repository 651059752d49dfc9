"""Two hidden states of a basketball drive, exponential emissions, in PyMC."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt


def build(N, K, u, v, alpha, **unused):
    """The model with its data."""
    u, v, alpha = (np.asarray(a, float) for a in (u, v, alpha))

    def step(e, gamma, log_theta):
        return pt.logsumexp(gamma[:, None] + log_theta, axis=0) + e

    with pm.Model() as model:
        theta = pt.stack([pm.Dirichlet("theta1", alpha[0]), pm.Dirichlet("theta2", alpha[1])])
        rates = []
        for name in ("phi", "lambda"):
            rate = pm.Deterministic(name, pt.cumsum(pm.HalfFlat(f"{name}_steps", shape=K)))
            pm.Potential(f"{name}_prior", pm.logp(pm.Normal.dist([0.0, 3.0], 1.0), rate).sum())
            rates.append(rate)
        log_p = sum(pt.log(r) - r * x[:, None] for r, x in zip(rates, (u, v), strict=True))
        gamma, _ = pytensor.scan(step, log_p[1:], log_p[0], [pt.log(theta)])
        pm.Potential("likelihood", pt.logsumexp(gamma[-1]))
    return model
