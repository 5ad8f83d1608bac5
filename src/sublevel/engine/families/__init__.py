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


def method_prefix(theta: Family) -> str:
    """How names of methods on the family of a distribution begin, or on that of its Gaussian part."""
    kind = type(theta.gaussian) if isinstance(theta, Mixed) else type(theta)
    return {family: prefix for prefix, family in FAMILIES.items()}.get(kind, "")


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
    "method_prefix",
]
