"""Hyperparameters integrated numerically, with everything that can be exact inside them."""
