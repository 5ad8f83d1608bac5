"""A quadratic f₀ + gᵀz + ½zᵀQz from values at a star of antithetic points, and what its coefficients are worth.

The points are the centre, ±s·eᵢ at two radii s, and ±(eᵢ + eⱼ)/√2, under noise also ±(eᵢ − eⱼ)/√2. Half sums of antithetic values hold
f₀ and Q, half differences hold g; each Qᵢⱼ has pairs of its own. So p = (d + 1)(d + 2)/2 coefficients cost O(d³) work instead of O(p³):
only (f₀, Q₁₁ … Q_dd) and g are systems of equations, of d + 1 and d unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sublevel.arrays import Array

INNER = 0.5
"""Radius of the inner points on the axes, the outer ones having 1: a quartic term rises there to 1/16, a quadratic one to 1/4."""


@dataclass(frozen=True, slots=True)
class Star:
    """Which points to evaluate in k dimensions: pairs ±z of rows z (m, k), the centre not among them."""

    size: int  # k
    checks: int  # axes (the first so many) that have inner points too
    both: bool  # also the differences eᵢ − eⱼ

    @property
    def couples(self) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
        """i and j of the k(k − 1)/2 couples i < j."""
        return np.triu_indices(self.size, 1)

    @property
    def axis_rows(self) -> Array:
        """Rows (k + checks, k): the outer points of every axis, then the inner ones."""
        eye = np.eye(self.size)
        return np.concatenate([eye, INNER * eye[: self.checks]])

    @property
    def couple_rows(self) -> Array:
        """Rows: (eᵢ + eⱼ)/√2 of all couples, then (eᵢ − eⱼ)/√2 if both."""
        i, j = self.couples
        eye = np.sqrt(0.5) * np.eye(self.size)
        return np.concatenate([eye[i] + eye[j], *([eye[i] - eye[j]] if self.both else [])])

    @property
    def evaluations(self) -> int:
        """How many one round of them costs, with the centre."""
        return 1 + 2 * (self.size + self.checks) + self.size * (self.size - 1) * (2 if self.both else 1)


@dataclass(frozen=True, slots=True)
class Values:
    """What was seen: n values at the centre (n,), and m rounds of both ends of the axes and couples (m, rows)."""

    centre: Array
    axes: tuple[Array, Array]  # f(z), f(−z)
    couples: tuple[Array, Array]

    @property
    def rounds(self) -> int:
        """m."""
        return len(self.axes[0])


@dataclass(frozen=True, slots=True)
class Errors:
    """Variances of the coefficients, in units of the variance of one value."""

    block: Array  # (k + 1, k + 1), covariance of (f₀, Q₁₁ … Q_kk)
    couple: float  # of what each Qᵢⱼ has for itself
    both: bool  # if not, Qᵢⱼ also inherits −2f₀ − ½(Qᵢᵢ + Qⱼⱼ)
    gradient: Array  # (k, k), covariance of g

    def of_form(self, columns: Array) -> Array:
        """Variances (m, m) of the entries of WᵀQW, for W (k, m)."""
        w = columns
        gram, total = w.T @ w, w.sum(axis=0)
        squares = np.square(w)
        # Σ_{i<j} (wᵢₐwⱼᵦ + wⱼₐwᵢᵦ)² over all couples, without a loop over them
        own = np.outer(np.diagonal(gram), np.diagonal(gram)) + np.square(gram) - 2.0 * (squares.T @ squares)
        variances = self.couple * np.maximum(own, 0.0)
        for a in range(w.shape[1]):
            weights = np.concatenate([np.zeros((1, w.shape[1])), w[:, a, None] * w])  # of (f₀, Qᵢᵢ), (k + 1, m)
            if not self.both:
                inherited = 0.5 * (w[:, a, None] * total + total[a] * w) - w[:, a, None] * w
                weights[1:] -= inherited
                weights[0] -= 2.0 * (total[a] * total - gram[a])
            variances[a] += np.einsum("im,im->m", weights, self.block @ weights)
        return variances

    def of_curvatures(self, directions: Array) -> Array:
        """Variances (m,) of vᵀQv for directions v (k, m)."""
        return np.array([float(self.of_form(v[:, None])[0, 0]) for v in directions.T])


@dataclass(frozen=True, slots=True)
class Quadratic:
    """The regression: coefficients, errors, and the scatter that is left, even and odd part apart."""

    constant: float
    gradient: Array  # (k,)
    matrix: Array  # (k, k)
    errors: Errors
    even: tuple[float, int]  # sum of squared residuals and their degrees of freedom: noise and quartic terms
    odd: tuple[float, int]  # noise and cubic terms
    rounds: int
    change: Array  # (checks,), by how much the rise at the outer end of an axis differs from what the inner one lets expect


def fitted(star: Star, values: Values, exact: bool) -> Quadratic:
    """Least squares over all rounds; through the value at the centre if that is exact."""
    base, rounds = float(values.centre.mean()), values.rounds
    even = [0.5 * (plus + minus) - base for plus, minus in (values.axes, values.couples)]
    odd = [0.5 * (plus - minus) for plus, minus in (values.axes, values.couples)]
    couples = even[1].mean(axis=0)
    design, seen, weight = _block_design(star, even[0].mean(axis=0), couples)
    weight[0] = values.centre.size / rounds
    coefficients, block = _solved(design, seen, weight, exact)
    constant, diagonal = float(coefficients[0]), coefficients[1:]
    gradient, gradient_errors, odd_left = (_exact_odd_fit if exact else _odd_fit)(star, [part.mean(axis=0) for part in odd])
    even_left = float(np.sum(weight * np.square(seen - design @ coefficients)))
    pure = _scatter([values.centre[:, None]], 1.0), _scatter(even, 2.0), _scatter(odd, 2.0)
    return Quadratic(
        constant=base + constant,
        gradient=gradient,
        matrix=_matrix(star, constant, diagonal, couples),
        errors=Errors(block / rounds, (1.0 if star.both else 2.0) / rounds, star.both, gradient_errors / rounds),
        even=(rounds * even_left + pure[0][0] + pure[1][0], len(seen) - star.size - 1 + pure[0][1] + pure[1][1]),
        odd=(rounds * odd_left[0] + pure[2][0], odd_left[1] + pure[2][1]),
        rounds=rounds,
        change=_change(star, even[0].mean(axis=0), constant),
    )


def _solved(design: Array, seen: Array, weight: Array, exact: bool) -> tuple[Array, Array]:
    """(f₀, Q₁₁ … Q_kk) and their covariance in units of the variance of one value; f₀ is 0 and sure if the centre is exact."""
    unknown = slice(1 if exact else 0, None)
    part = design[:, unknown]
    block = np.zeros((design.shape[1], design.shape[1]))
    block[unknown, unknown] = np.linalg.inv((part.T * weight) @ part)
    return block @ (design.T @ (weight * seen)), block


def _matrix(star: Star, constant: float, diagonal: Array, couples: Array) -> Array:
    """Q (k, k) from its diagonal and the half sums at the couples."""
    i, j = star.couples
    matrix = np.diag(diagonal)
    matrix[i, j] = couples[: i.size] - couples[i.size :] if star.both else 2 * (couples - constant) - 0.5 * (diagonal[i] + diagonal[j])
    matrix[j, i] = matrix[i, j]
    return matrix


def _block_design(star: Star, axes: Array, couples: Array) -> tuple[Array, Array, Array]:
    """Design (n, k + 1), means above the centre (n,) and weights (n,) of what tells about f₀ and the diagonal of Q, the centre first."""
    eye = np.eye(star.size)
    i, j = star.couples
    rows = [np.zeros((1, star.size)), 0.5 * np.square(star.axis_rows)]
    seen, weight = [np.zeros(1), axes], [np.ones(1), np.full(len(axes), 2.0)]
    if star.both and i.size:
        rows.append(0.25 * (eye[i] + eye[j]))
        seen.append(0.5 * (couples[: i.size] + couples[i.size :]))
        weight.append(np.full(i.size, 4.0))
    design = np.concatenate(rows)
    return np.column_stack([np.ones(len(design)), design]), np.concatenate(seen), np.concatenate(weight)


def _odd_fit(star: Star, odd: list[Array]) -> tuple[Array, Array, tuple[float, int]]:
    """g, its covariance in units of the variance of one value, and the squares of the residuals in these units with their number."""
    rows, seen = np.concatenate([star.axis_rows, star.couple_rows]), np.concatenate(odd)
    covariance = np.linalg.inv(2.0 * rows.T @ rows).astype(np.float64)
    gradient = covariance @ (2.0 * rows.T @ seen)
    return gradient, covariance, (2.0 * float(np.sum(np.square(seen - rows @ gradient))), len(seen) - star.size)


def _exact_odd_fit(star: Star, odd: list[Array]) -> tuple[Array, Array, tuple[float, int]]:
    """The same without noise, from the axes alone: of those with inner points the cubic term is taken out, s·g + s³·c at two radii s."""
    gradient, variances = odd[0][: star.size].copy(), np.full(star.size, 0.5)
    inner = odd[0][star.size :] / INNER
    gradient[: star.checks] = (inner - INNER**2 * gradient[: star.checks]) / (1.0 - INNER**2)
    variances[: star.checks] = 0.5 * (1.0 / INNER**2 + INNER**4) / (1.0 - INNER**2) ** 2
    left = odd[1] - star.couple_rows @ gradient
    return gradient, np.diag(variances), (2.0 * float(np.sum(np.square(left))), len(left))


def _scatter(parts: list[Array], weight: float) -> tuple[float, int]:
    """Weighted squares of rounds (m, n) about their means, and their degrees of freedom."""
    squares = sum(float(np.sum(np.square(part - part.mean(axis=0)))) for part in parts)
    return weight * squares, sum((len(part) - 1) * part.shape[1] for part in parts)


def _change(star: Star, axes: Array, constant: float) -> Array:
    """Outer minus inner rise of each axis that has both, the inner one extrapolated."""
    return (axes[: star.checks] - constant) - (axes[star.size :] - constant) / INNER**2
