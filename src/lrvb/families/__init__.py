"""Exponential families: one file each."""

from .base import Family
from .beta import Beta
from .categorical import Categorical
from .dirichlet import Dirichlet
from .gamma import Gamma
from .gaussian_chain import GaussianChain
from .markov_chain import MarkovChain
from .mvn import MultivariateNormal
from .normal import Normal
from .tilted import Tilted
from .wishart import Wishart

__all__ = [
    "Beta",
    "Categorical",
    "Dirichlet",
    "Family",
    "Gamma",
    "GaussianChain",
    "MarkovChain",
    "MultivariateNormal",
    "Normal",
    "Tilted",
    "Wishart",
]
