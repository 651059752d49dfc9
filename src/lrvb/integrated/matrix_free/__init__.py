"""Gaussian rows with crossed or nested factors of many levels, without any matrix of them."""
