"""Mixed models from a formula and a table: formula, design, priors, estimator."""
