"""Ground truth: simulated data of the paper's studies, and their exact posteriors by quadrature."""

from . import normal_poisson, random_slope, simulate
from .posterior import ExactPosterior

__all__ = ["ExactPosterior", "normal_poisson", "random_slope", "simulate"]
