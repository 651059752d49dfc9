"""Hyperparameters integrated out by importance sampling, coefficients and levels exactly given them."""
