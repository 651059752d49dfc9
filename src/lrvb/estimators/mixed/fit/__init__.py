"""The optimum, and the posterior of precisions and coefficients."""
