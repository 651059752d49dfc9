"""Exponential families: one file each."""

from .base import Family
from .gamma import Gamma
from .normal import Normal

__all__ = ["Family", "Gamma", "Normal"]
