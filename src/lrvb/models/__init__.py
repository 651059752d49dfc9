"""Ready-made models: one short file each."""

from .base import Model
from .normal_poisson import NormalPoisson
from .random_slope import RandomSlope

__all__ = ["Model", "NormalPoisson", "RandomSlope"]
