"""Priors by name, and weak defaults scaled to the data."""
