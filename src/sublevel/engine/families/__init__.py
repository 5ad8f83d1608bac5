"""Families of search distributions."""

from collections.abc import Mapping

from sublevel.engine.families.bernoulli import Bernoulli
from sublevel.engine.families.diagonal import DiagonalGaussian
from sublevel.engine.families.full import FullGaussian
from sublevel.engine.families.isotropic import IsotropicGaussian
from sublevel.engine.families.mixed import Mixed
from sublevel.engine.families.protocol import Family, GaussianSample, Sample

FAMILIES: Mapping[str, type[Family]] = {
    "": FullGaussian,
    "sep-": DiagonalGaussian,
    "iso-": IsotropicGaussian,
}
"""Registry: families of real vectors by the prefix of method names."""

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "DiagonalGaussian",
    "Family",
    "FullGaussian",
    "GaussianSample",
    "IsotropicGaussian",
    "Mixed",
    "Sample",
]
