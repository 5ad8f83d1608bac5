"""Families of distributions to search with."""

from sublevel.engine.families.bernoulli import Bernoulli
from sublevel.engine.families.diagonal import DiagonalGaussian
from sublevel.engine.families.full import FullGaussian
from sublevel.engine.families.isotropic import IsotropicGaussian
from sublevel.engine.families.protocol import Family, GaussianSample, Sample

__all__ = ["Bernoulli", "DiagonalGaussian", "Family", "FullGaussian", "GaussianSample", "IsotropicGaussian", "Sample"]
