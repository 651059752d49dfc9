"""Ready-made models: one short file each."""

from ..statement.model import Model
from .gaussian_mixture import NormalMixture
from .normal_poisson import NormalPoisson
from .random_slope import RandomSlope

__all__ = ["Model", "NormalMixture", "NormalPoisson", "RandomSlope"]
