"""Ground truth: simulated data of the paper's studies, exact posteriors and a Gibbs sampler."""

from . import mixture_gibbs, normal_poisson, random_slope, simulate
from .ess import effective_sample_size
from .mixture_draws import MixtureDraws
from .posterior import ExactPosterior

__all__ = [
    "ExactPosterior",
    "MixtureDraws",
    "effective_sample_size",
    "mixture_gibbs",
    "normal_poisson",
    "random_slope",
    "simulate",
]
