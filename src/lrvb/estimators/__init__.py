"""Estimators with the conventions of the libraries users already know."""
