"""Party identification in 1972, flat priors, in PyMC."""

import numpy as np
import pymc as pm


def build(partyid7, real_ideo, race_adj, educ1, gender, income, age_discrete, **unused):
    """The model with its data."""
    age = np.asarray(age_discrete)
    columns = (real_ideo, race_adj, age == 2, age == 3, age == 4, educ1, gender, income)
    X = np.stack([np.ones(len(age)), *(np.asarray(c, float) for c in columns)], -1)
    with pm.Model() as model:
        beta = pm.Flat("beta", shape=9)
        sigma = pm.HalfFlat("sigma")
        pm.Normal("obs", pm.math.dot(X, beta), sigma, observed=np.asarray(partyid7, float))
    return model
