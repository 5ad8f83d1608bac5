"""A quadratic f₀ + gᵀz + ½zᵀQz from values at a star of antithetic points, with the variances of its coefficients.

The points are the centre, ±s·eᵢ at two radii s, and ±(eᵢ + eⱼ)/√2, under noise also ±(eᵢ − eⱼ)/√2. Half sums of
antithetic values hold f₀ and Q, half differences hold g; each Qᵢⱼ has pairs of its own. So p = (d + 1)(d + 2)/2
coefficients cost O(d³) work instead of O(p³): only (f₀, Q₁₁ … Q_dd) and g are systems of equations, of d + 1 and d
unknowns.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array

INNER = 0.5
"""Radius of the inner points on the axes (the outer one is 1): a quartic term is 1/16 there, a quadratic one 1/4."""


@dataclass(frozen=True, slots=True)
class Star:
    """The points to evaluate in k dimensions: pairs ±z of rows z (m, k), without the centre."""

    size: int  # k
    checks: int  # number of axes, the first ones, that have inner points
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
        """Evaluations of one round, including the centre."""
        return 1 + 2 * (self.size + self.checks) + self.size * (self.size - 1) * (2 if self.both else 1)


@dataclass(frozen=True, slots=True)
class Values:
    """Values at the centre (n,), and m rounds at both ends of the axes and couples (m, rows)."""

    centre: Array
    axes: tuple[Array, Array]  # f(z), f(−z)
    couples: tuple[Array, Array]

    @classmethod
    def of_one_round(cls, centre: Array, axes: tuple[Array, Array], couples: tuple[Array, Array]) -> Values:
        """One round of values (rows,)."""
        return cls(centre, (axes[0][None], axes[1][None]), (couples[0][None], couples[1][None]))

    @classmethod
    def join(cls, *parts: Values) -> Values:
        """The rounds of all parts."""

        def stack(pairs: list[tuple[Array, Array]]) -> tuple[Array, Array]:
            return np.concatenate([plus for plus, _ in pairs]), np.concatenate([minus for _, minus in pairs])

        centre = np.concatenate([part.centre for part in parts])
        return cls(centre, stack([part.axes for part in parts]), stack([part.couples for part in parts]))

    @property
    def rounds(self) -> int:
        """m."""
        return len(self.axes[0])


@dataclass(frozen=True, slots=True)
class Errors:
    """Variances of the coefficients, in units of the variance of one value."""

    block: Array  # (k + 1, k + 1), covariance of (f₀, Q₁₁ … Q_kk)
    couple: float  # of the part of Qᵢⱼ that is measured independently
    both: bool  # if not, Qᵢⱼ also contains −2f₀ − ½(Qᵢᵢ + Qⱼⱼ)
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

    def deviations_of_form(self, columns: Array, variance: float) -> Array:
        """Standard deviations (m, m) for values of this variance, without fourth powers of W, which may overflow."""
        sizes = np.ldexp(1.0, np.frexp(np.max(np.abs(columns), axis=0))[1])
        return np.sqrt(variance * self.of_form(columns / sizes)) * sizes * sizes[:, None]

    def deviations_of_curvatures(self, directions: Array, variance: float) -> Array:
        """Standard deviations (m,) of vᵀQv for directions v (k, m)."""
        return np.array([float(self.deviations_of_form(v[:, None], variance)[0, 0]) for v in directions.T])


@dataclass(frozen=True, slots=True)
class Quadratic:
    """The regression: coefficients, errors, and residuals, separately for the even and the odd part."""

    constant: float
    gradient: Array  # (k,)
    matrix: Array  # (k, k)
    errors: Errors
    even: tuple[float, int]  # sum of squared residuals and their degrees of freedom: noise and quartic terms
    odd: tuple[float, int]  # noise and cubic terms
    pure: tuple[float, int]  # of values at the same points: noise alone
    lack_of_fit: LackOfFit


@dataclass(frozen=True, slots=True)
class LackOfFit:
    """Deviations from a quadratic: rises of f (n,) along axes and couples, less those expected of a quadratic."""

    change: Array  # (n,)
    units: Array  # (n,), their variances, in units of the variance of one value
    lift: Array  # (n,), coefficients of f₀ in them

    def with_unknown_constant(self, unit: float) -> LackOfFit:
        """With the variance of f₀, the mean at the centre: that of the regression hides quartic terms of all axes."""
        return LackOfFit(self.change, self.units + np.square(self.lift) * unit, self.lift)


@dataclass(frozen=True, slots=True)
class Halves:
    """Half sums and differences of antithetic values, means over rounds, of the axes (k + checks,) and the couples."""

    even: tuple[Array, Array]  # ½zᵀQz + lift·f₀, f₀ measured from the mean at the centre
    odd: tuple[Array, Array]  # gᵀz
    units: tuple[float, float]  # twice the variances of an even and an odd one, in units of one value's variance
    lift: float = 1.0


def fit_quadratic(star: Star, values: Values, exact: bool) -> Quadratic:
    """Least squares over all rounds; through the value at the centre if that is exact."""
    halves = _halves(values, float(values.centre.mean()))
    axes, k = halves.even[0], star.size
    unit = 0.5 * (1.0 + INNER**-4) * halves.units[0]
    lack_of_fit = _lack_of_fit(star, halves, axes[: star.checks] - axes[k:] / INNER**2, unit, 1.0 - INNER**-2)
    return _regression(star, halves, (values,), lack_of_fit, exact)


def fit_extrapolated(star: Star, outer: Values, inner: Values, exact: bool = False) -> Quadratic:
    """The same from stars of radius 1 and s = INNER; cubic and quartic terms of f have no effect.

    Even halves are f₀ + a + c outside and f₀ + s²a + s⁴c inside, from which (inner − s⁴·outer)/(s² − s⁴) = a + (1 +
    1/s²)·f₀ follows; odd ones a + c and sa + s³c, from which (inner − s³·outer)/(s − s³) = a follows: Richardson
    extrapolation to radius 0. Its dependence on the radius is checked along the axes, which also have points of radius
    s². The stars have `both` kinds of couples, or the value at the centre is `exact`.
    """
    base = float(np.concatenate([outer.centre, inner.centre]).mean())
    wide, near = _halves(outer, base), _halves(inner, base)
    k, lift = star.size, 1.0 + INNER**-2
    even = _eliminate(wide.even[0][:k], near.even[0][:k], 2), _eliminate(wide.even[1], near.even[1], 2)
    odd = _eliminate(wide.odd[0][:k], near.odd[0][:k], 1), _eliminate(wide.odd[1], near.odd[1], 1)
    units = extrapolated_unit(wide.units[0], near.units[0], 2), extrapolated_unit(wide.units[1], near.units[1], 1)
    halves = Halves(even, odd, units, lift)
    nearer = _eliminate(near.even[0][: star.checks], near.even[0][k:], 2) / INNER**2
    unit = 0.5 * extrapolated_unit(wide.units[0], ((1.0 + INNER**2) ** 2 + INNER**-4) * near.units[0], 2)
    lack_of_fit = _lack_of_fit(star, halves, halves.even[0][: star.checks] - nearer, unit, lift * (1.0 - INNER**-2))
    return _regression(replace(star, checks=0), halves, (outer, inner), lack_of_fit, exact)


def _lack_of_fit(star: Star, halves: Halves, change: Array, unit: float, lift: float) -> LackOfFit:
    """The changes (checks,) along axes; under noise also those of couples relative to their axes."""
    units, lifts = np.full(len(change), unit), np.full(len(change), lift)
    if not star.both:
        return LackOfFit(change, units, lifts)
    i, j = star.couples
    axes, couples = halves.even
    between = 0.5 * (couples[: i.size] + couples[i.size :]) - 0.5 * (axes[i] + axes[j])
    units = np.append(units, np.full(i.size, 0.5 * halves.units[0]))
    return LackOfFit(np.append(change, between), units, np.append(lifts, np.zeros(i.size)))


def _eliminate(outer: Array, inner: Array, power: int) -> Array:
    """The part of halves that is proportional to s^power, without that in s^(power + 2), at radii 1 and s = INNER."""
    return (inner - INNER ** (power + 2) * outer) / (INNER**power - INNER ** (power + 2))


def extrapolated_unit(outer: float, inner: float, power: int) -> float:
    """Variance of the extrapolated half from those of the outer and the inner one."""
    return (inner + INNER ** (2 * power + 4) * outer) / np.square(INNER**power - INNER ** (power + 2))


def _halves(values: Values, base: float) -> Halves:
    """Halves of values less a base value."""
    (a_plus, a_minus), (c_plus, c_minus) = values.axes, values.couples
    even = (0.5 * (a_plus + a_minus) - base).mean(axis=0), (0.5 * (c_plus + c_minus) - base).mean(axis=0)
    odd = (0.5 * (a_plus - a_minus)).mean(axis=0), (0.5 * (c_plus - c_minus)).mean(axis=0)
    return Halves(even, odd, (1.0 / values.rounds, 1.0 / values.rounds))


def _regression(star: Star, halves: Halves, seen: tuple[Values, ...], lack_of_fit: LackOfFit, exact: bool) -> Quadratic:
    """All coefficients from the halves of the values."""
    centre = np.concatenate([values.centre for values in seen])
    (even_unit, odd_unit), couples = halves.units, halves.even[1]
    design, rises, weight = _block_design(star, halves)
    weight[0] = centre.size * even_unit
    coefficients, block = _solve_block(design, rises, weight, exact)
    constant, diagonal = float(coefficients[0]), coefficients[1:]
    gradient, gradient_errors, odd_left = (_exact_odd_fit if exact else _odd_fit)(star, halves.odd)
    even_left = float(np.sum(weight * np.square(rises - design @ coefficients)))
    at_centre, even, odd = _scatter([centre[:, None]], 1.0), _pure_error(seen, 1.0), _pure_error(seen, -1.0)
    return Quadratic(
        constant=float(centre.mean()) + constant,
        gradient=gradient,
        matrix=_matrix(star, constant, diagonal, couples),
        errors=Errors(even_unit * block, (2 - star.both) * even_unit, star.both, odd_unit * gradient_errors),
        even=(even_left / even_unit + at_centre[0] + even[0], len(rises) - star.size - 1 + at_centre[1] + even[1]),
        odd=(odd_left[0] / odd_unit + odd[0], odd_left[1] + odd[1]),
        pure=(at_centre[0] + even[0] + odd[0], at_centre[1] + even[1] + odd[1]),
        lack_of_fit=lack_of_fit if exact else lack_of_fit.with_unknown_constant(1.0 / centre.size),
    )


def _solve_block(design: Array, seen: Array, weight: Array, exact: bool) -> tuple[Array, Array]:
    """(f₀, Q₁₁ … Q_kk) and their covariance in units of one value's variance; f₀ is 0 if the centre is exact."""
    unknown = slice(1 if exact else 0, None)
    part = design[:, unknown]
    block = np.zeros((design.shape[1], design.shape[1]))
    block[unknown, unknown] = np.linalg.inv((part.T * weight) @ part)
    return block @ (design.T @ (weight * seen)), block


def _matrix(star: Star, constant: float, diagonal: Array, couples: Array) -> Array:
    """Q (k, k) from its diagonal and the half sums at the couples."""
    i, j = star.couples
    matrix = np.diag(diagonal)
    if star.both:
        matrix[i, j] = couples[: i.size] - couples[i.size :]
    else:
        matrix[i, j] = 2 * (couples - constant) - 0.5 * (diagonal[i] + diagonal[j])
    matrix[j, i] = matrix[i, j]
    return matrix


def _block_design(star: Star, halves: Halves) -> tuple[Array, Array, Array]:
    """Design (n, k + 1), even halves (n,) and weights (n,) of the equations for (f₀, Q₁₁ … Q_kk), the centre first."""
    eye = np.eye(star.size)
    i, j = star.couples
    axes, couples = halves.even
    rows = [np.zeros((1, star.size)), 0.5 * np.square(star.axis_rows)]
    seen, weight = [np.zeros(1), axes], [np.ones(1), np.full(len(axes), 2.0)]
    if star.both and i.size:
        rows.append(0.25 * (eye[i] + eye[j]))
        seen.append(0.5 * (couples[: i.size] + couples[i.size :]))
        weight.append(np.full(i.size, 4.0))
    design = np.concatenate(rows)
    lifts = np.full(len(design), halves.lift)
    lifts[0] = 1.0
    return np.column_stack([lifts, design]), np.concatenate(seen), np.concatenate(weight)


def _odd_fit(star: Star, odd: tuple[Array, Array]) -> tuple[Array, Array, tuple[float, int]]:
    """g, its covariance, and the sum of squared residuals with its degrees of freedom, in units of one variance."""
    rows, seen = np.concatenate([star.axis_rows, star.couple_rows]), np.concatenate(odd)
    covariance = np.linalg.inv(2.0 * rows.T @ rows).astype(np.float64)
    gradient = covariance @ (2.0 * rows.T @ seen)
    return gradient, covariance, (2.0 * float(np.sum(np.square(seen - rows @ gradient))), len(seen) - star.size)


def _exact_odd_fit(star: Star, odd: tuple[Array, Array]) -> tuple[Array, Array, tuple[float, int]]:
    """The same without noise, from the axes alone; inner points eliminate the cubic term."""
    gradient, variances = odd[0][: star.size].copy(), np.full(star.size, 0.5)
    inner = odd[0][star.size :] / INNER
    gradient[: star.checks] = (inner - INNER**2 * gradient[: star.checks]) / (1.0 - INNER**2)
    variances[: star.checks] = 0.5 * (1.0 / INNER**2 + INNER**4) / (1.0 - INNER**2) ** 2
    left = odd[1] - star.couple_rows @ gradient
    return gradient, np.diag(variances), (2.0 * float(np.sum(np.square(left))), len(left))


def _pure_error(seen: tuple[Values, ...], sign: float) -> tuple[float, int]:
    """Squares of even (sign 1) or odd (sign −1) halves about the means of their points, and degrees of freedom."""
    pairs = [pair for values in seen for pair in (values.axes, values.couples)]
    return _scatter([0.5 * (plus + sign * minus) for plus, minus in pairs], 2.0)


def _scatter(parts: list[Array], weight: float) -> tuple[float, int]:
    """Weighted squares of rounds (m, n) about their means, and their degrees of freedom."""
    squares = sum(float(np.sum(np.square(part - part.mean(axis=0)))) for part in parts)
    return weight * squares, sum((len(part) - 1) * part.shape[1] for part in parts)
