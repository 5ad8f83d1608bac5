"""Distributions that are made of others, as arrays."""

from __future__ import annotations

from dataclasses import fields, is_dataclass

import numpy as np
from scipy.special import ndtr


def leaves(value):
    """The arrays of a distribution, of all its parts."""
    if is_dataclass(value):
        return [leaf for field in fields(value) for leaf in leaves(getattr(value, field.name))]
    return [] if value is None else [np.asarray(value)]


def same_bits(one, other):
    """Whether two distributions are equal to the last bit."""
    return all(np.array_equal(a, b) for a, b in zip(leaves(one), leaves(other), strict=True))


def probability_of_leaving(theta, grid, periods=3):
    """P(the integer drawn is not the mean's) of each coordinate (k,) of a single run, 0 if it is real.

    Summed over the mirror images of the integer: the coordinates x, −x and their shifts by twice the width of the box.
    """
    here = grid.nearest(theta.mean)
    cell, (lower, upper) = (grid.position(here - 0.5), grid.position(here + 0.5)), grid.ends
    found = np.zeros(here.size)
    for j in range(here.size):
        below, above = float(cell[0][j]), float(cell[1][j])
        images, near = [(below, above)], [end for end in (lower[j], upper[j]) if np.isfinite(end)]
        if near:
            images.append((2 * near[0] - above, 2 * near[0] - below))
        if len(near) == 2:
            shifts = 2 * (near[1] - near[0]) * np.arange(-periods, periods + 1)
            images = [(a + shift, b + shift) for a, b in images for shift in shifts]
        stays = sum(np.diff(ndtr((np.array(image) - theta.mean[j]) / theta.deviations[j]))[0] for image in images)
        found[j] = 1 - stays if grid.is_integer[j] else 0.0
    return found
