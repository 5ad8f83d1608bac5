"""Families of distributions to search with."""

from sublevel.families.bernoulli import Bernoulli
from sublevel.families.diagonal import DiagonalGaussian
from sublevel.families.full import FullGaussian
from sublevel.families.isotropic import IsotropicGaussian
from sublevel.families.protocol import Family, GaussianSample, Sample

__all__ = ["Bernoulli", "DiagonalGaussian", "Family", "FullGaussian", "GaussianSample", "IsotropicGaussian", "Sample"]
