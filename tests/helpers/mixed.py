"""Distributions that are made of others, as arrays."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np


def leaves(value):
    """The arrays of a distribution, of all its parts."""
    if is_dataclass(value):
        return [leaf for field in fields(value) for leaf in leaves(getattr(value, field.name))]
    return [] if value is None else [np.asarray(value)]


def same_bits(one, other):
    """Whether two distributions are equal to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))
