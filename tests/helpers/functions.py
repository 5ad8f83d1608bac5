"""Test functions of points (..., d) with the minimum 0, at 0 but for Rosenbrock's, which has it at 1."""

from __future__ import annotations

import numpy as np


def _axis(x):
    """0 … 1 over the coordinates."""
    return np.arange(x.shape[-1]) / (x.shape[-1] - 1)


def sphere(x):
    """‖x‖²."""
    return np.vecdot(x, x)


def ellipsoid(x):
    """Axes of 1 … 10⁶."""
    return np.square(x) @ 1e6 ** _axis(x)


def cigar(x):
    """One flat axis."""
    return 1e6 * sphere(x) - (1e6 - 1) * np.square(x[..., 0])


def discus(x):
    """One steep axis."""
    return sphere(x) + (1e6 - 1) * np.square(x[..., 0])


def different_powers(x):
    """Σ|xᵢ|^(2 … 6)."""
    return np.sum(np.abs(x) ** (2 + 4 * _axis(x)), axis=-1)


def rosenbrock(x):
    """A bent valley, and from 4 dimensions on another minimum."""
    ahead, behind = x[..., 1:], x[..., :-1]
    return np.sum(100 * np.square(ahead - np.square(behind)) + np.square(1 - behind), axis=-1)


def rastrigin(x):
    """Σ(xᵢ² + 10(1 − cos 2πxᵢ)): about 11ᵈ minima."""
    return np.sum(np.square(x) + 10 * (1 - np.cos(2 * np.pi * x)), axis=-1)


UNIMODAL = {
    "sphere": sphere,
    "ellipsoid": ellipsoid,
    "cigar": cigar,
    "discus": discus,
    "different powers": different_powers,
    "Rosenbrock": rosenbrock,
}
"""What evaluations are counted on."""
