"""Constraints of a problem: parsing the argument `constraints`, and the inequalities that follow from their values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.method import Method
from sublevel.engine.ordering import BY_VALUE, ORDERINGS, equality_constraints
from sublevel.evaluation.failures import annotate_exception
from sublevel.evaluation.objective import (
    ConstrainedObjective,
    call_objective,
    name_parameters,
)
from sublevel.evaluation.values import as_constraint_values, as_float64, plain_array
from sublevel.run.parameters import Choice, Space
from sublevel.run.projection import HalfSpaces
from sublevel.summaries import short_repr
from sublevel.validation import as_positive

if TYPE_CHECKING:
    from scipy.optimize import LinearConstraint, NonlinearConstraint

TOLERANCE = 1e-6
"""Default of `constraint_tol`."""
FORMS = (
    "a scipy.optimize.NonlinearConstraint or LinearConstraint, a dict as for SLSQP, a list of these, or the number of "
    "constraint values that `fun` returns as (f, g)"
)
Constraint: TypeAlias = "NonlinearConstraint | LinearConstraint | Mapping[str, Any] | int"
ConstraintsLike: TypeAlias = "Constraint | Sequence[Constraint]"
"""What `constraints=` takes."""
ConstraintFunction = Callable[[Array], object]


class Batched(NamedTuple):
    """Constraints whose functions take points (n, d) and return values (n, k)."""

    constraints: object


@dataclass(frozen=True, slots=True)
class Linear:
    """The values A x of linear constraints."""

    matrix: Any  # (k, d), an array or a sparse matrix

    def __call__(self, points: Array) -> Array:
        """A x (..., k) at a point or at several, with the same bits."""
        if points.ndim == 1:
            return np.asarray(self.matrix @ points)
        return np.array([self.matrix @ point for point in points]).reshape(len(points), self.matrix.shape[0])


@dataclass(frozen=True, slots=True)
class Components:
    """Some of the values that a constraint function returns."""

    fun: ConstraintFunction
    places: NDArray[np.intp]

    def __call__(self, points: Array) -> Array:
        """The values (..., k) at a point or at several."""
        return as_float64(plain_array("constraints", self.fun(points)))[..., self.places]


@dataclass(frozen=True, slots=True)
class Part:
    """Components of one constraint that are handled alike: lower ≤ c(x) ≤ upper, (k,) each."""

    fun: ConstraintFunction | None  # None if the objective returns the values, or if it is not known
    lower: Array
    upper: Array
    group: int  # the constraint
    places: NDArray[np.intp]  # (k,), its components
    is_own: bool = False  # whether the objective returns the values

    @property
    def size(self) -> int:
        """k."""
        return self.places.size

    def values(self, points: Array, batched: bool) -> Array:
        """Values (n, k) at points (n, d), which become read-only."""
        if self.fun is None:
            raise TypeError(
                "`tell` needs the values of the constraints at the points, an array (n, m): "
                "tell(X, values, constraints=G)."
            )
        points.setflags(write=False)
        try:
            if batched and not isinstance(self.fun, Linear):
                return as_constraint_values(call_objective(self.fun, points), (len(points), self.size))
            rows = [as_constraint_values(call_objective(self.fun, point), (self.size,)) for point in points]
        except Exception as error:
            annotate_exception(error, f"sublevel: raised by the constraint function {short_repr(self.fun)}")
            raise
        return np.array(rows).reshape(len(points), self.size)


class Inequalities(NamedTuple):
    """Which values c (k,) make the inequalities g (m,) ≤ 0, in this order."""

    upper: NDArray[np.intp]  # c − upper
    lower: NDArray[np.intp]  # lower − c
    equal: NDArray[np.intp]  # |c − lower| − tolerance, or two for each


class Component(NamedTuple):
    """One inequality or equality: a component of a constraint."""

    label: str
    group: int  # the constraint
    place: int  # in it
    lower: float
    upper: float


@dataclass(frozen=True)
class Constraints:
    """The constraints of a problem: those that the search handles, and those that every evaluated point satisfies."""

    parts: tuple[Part, ...]  # the search handles them
    kept: tuple[Part, ...]  # satisfied before the objective is called
    names: tuple[str, ...]  # of the constraints
    tolerance: float
    two_sided: bool = True  # whether an equality is two inequalities
    batched: bool = False

    @cached_property
    def size(self) -> int:
        """Number of values k that an evaluation returns besides f."""
        return sum(part.size for part in self.parts)

    @cached_property
    def bounds(self) -> tuple[Array, Array]:
        """Lower and upper bounds (k,) of these values."""
        return _join_bounds(self.parts)

    @cached_property
    def inequalities(self) -> Inequalities:
        """How values become inequalities."""
        lower, upper = self.bounds
        equal = lower == upper
        indices = (np.flatnonzero(mask) for mask in (~equal & (upper < np.inf), ~equal & (lower > -np.inf), equal))
        return Inequalities(*indices)

    @property
    def count(self) -> int:
        """Number of inequalities m that follow from the values of an evaluation."""
        upper, lower, equal = self.inequalities
        return upper.size + lower.size + equal.size * (2 if self.two_sided else 1)

    @property
    def total(self) -> int:
        """Number of inequalities that the search handles: these, and the linear ones."""
        return self.count + (0 if self.half_spaces is None else self.half_spaces.limits.size)

    def g(self, values: Array) -> Array:
        """Inequalities g ≤ 0 (n, m) of values (n, k)."""
        (low, high), (upper, lower, equal) = self.bounds, self.inequalities
        sides = [values[:, upper] - high[upper], low[lower] - values[:, lower]]
        if equal.size:
            residuals = values[:, equal] - low[equal]
            sides.append(equality_constraints(residuals, self.tolerance, two_sided=self.two_sided))
        return np.concatenate(sides, axis=1)

    def violations(self, values: Array) -> Array:
        """By how much values (..., k) are outside of their bounds (..., k); 0 inside."""
        return _violations(values, *self.bounds)

    def values(self, points: Array) -> Array:
        """Values (n, k) of the constraint functions at points (n, d)."""
        none = np.zeros((len(points), 0))
        return np.concatenate([none, *(part.values(points, self.batched) for part in self.parts)], axis=1)

    def objective(self, fun: Callable[..., object], batched: bool | None = None) -> Callable[..., object]:
        """The objective, which also computes the constraint values of a point unless they are known before.

        It takes several points if `batched`, by default if the constraint functions do.
        """
        if not self.parts:
            return fun
        sizes = tuple(part.size for part in self.parts)
        if batched in (None, self.batched):
            return ConstrainedObjective(fun, tuple(part.fun for part in self.parts), sizes, self.batched)
        functions = (None if part.fun is None else partial(_rows_of, part, self.batched) for part in self.parts)
        return ConstrainedObjective(fun, tuple(functions), sizes, not self.batched)

    @property
    def is_complete(self) -> bool:
        """Whether all functions are known: a file has none, and a pickled result only linear ones."""
        return all(part.fun is not None or part.is_own for part in (*self.parts, *self.kept))

    def without_functions(self) -> Constraints:
        """The same constraints, without the functions of those that are not linear."""
        known = (
            [part if isinstance(part.fun, Linear) else replace(part, fun=None) for part in parts]
            for parts in (self.parts, self.kept)
        )
        parts, kept = map(tuple, known)
        return replace(self, parts=parts, kept=kept)

    def satisfied(self, points: Array) -> NDArray[np.bool_]:
        """Whether points (n, d) satisfy the constraints that every evaluated point must satisfy (n,)."""
        good = np.ones(len(points), dtype=np.bool_)
        for part in self.kept:
            rows = np.flatnonzero(good)
            if rows.size:
                values = part.values(points[rows], self.batched)
                good[rows] = ((values >= part.lower) & (values <= part.upper)).all(axis=1)
        return good

    @cached_property
    def half_spaces(self) -> HalfSpaces | None:
        """The linear inequalities that are satisfied before the objective is called, None if there are none."""
        matrices: list[Array] = []
        limits: list[Array] = []
        for part in self.kept:
            if isinstance(part.fun, Linear):
                matrix = part.fun.matrix
                dense: Array = np.asarray(matrix.toarray() if hasattr(matrix, "toarray") else matrix, dtype=np.float64)
                low, high = part.lower > -np.inf, part.upper < np.inf
                matrices += [-dense[high], dense[low]]
                limits += [-part.upper[high], part.lower[low]]
        return HalfSpaces(np.concatenate(matrices), np.concatenate(limits)) if matrices else None

    @property
    def is_projected(self) -> bool:
        """Whether all constraints that every evaluated point satisfies are linear, so that points can be projected."""
        return all(isinstance(part.fun, Linear) for part in self.kept)

    def check_start(self, x0: Array, space: Space | None = None) -> None:
        """The starting point (d,) must satisfy them too."""
        hint = "" if space is None else " Use Space.start_at(values) to start elsewhere."
        for part in self.kept:
            if part.fun is None:  # read from a file
                continue
            (values,) = part.values(x0[None].copy(), self.batched)
            outside = ~((values >= part.lower) & (values <= part.upper))
            if outside.any():
                j = int(np.argmax(outside))
                raise ValueError(
                    "`x0` must satisfy the linear constraints and those with keep_feasible=True, because `fun` is "
                    f"never called where they are violated; got {self._label(part, j)} = {values[j]:.6g} at x0 = "
                    f"{short_repr(x0)}, for the bounds {part.lower[j]:.6g} and {part.upper[j]:.6g}.{hint}"
                )

    def all_values(self, x: Array, values: Array | None) -> list[Array]:
        """The values of each constraint at a point x (d,), given those of its evaluation (k,), NaN if there is none."""
        groups = [np.full(size, np.nan) for size in self._sizes]
        if values is not None:
            self._spread(groups, values)
        for part in self.kept:
            if part.fun is not None:
                groups[part.group][part.places] = part.values(x[None].copy(), self.batched)[0]
        return groups

    def largest_violation(self, values: Array | None) -> float:
        """The largest violation at a point, given the values of its evaluation (k,); NaN if it was not evaluated."""
        if values is None and self.parts:
            return np.nan
        return 0.0 if values is None else float(np.max(self.violations(values), initial=0.0))

    def allows(self, values: Array | None) -> bool:
        """Whether no violation at a point exceeds the tolerance, given its values (k,), None if there are none."""
        return not self.parts or self.largest_violation(values) <= self.tolerance

    def multipliers(self, of_inequalities: Array) -> list[Array]:
        """Multipliers of each constraint, given those of the inequalities (m,): positive at an upper bound, negative at
        a lower one, NaN for constraints that every evaluated point satisfies.
        """
        upper, lower, equal = self.inequalities
        sizes = [upper.size, lower.size, equal.size, equal.size if self.two_sided else 0]
        ends = np.split(of_inequalities, np.cumsum(sizes))
        values = np.zeros(self.size)
        values[upper] += ends[0]
        values[lower] -= ends[1]
        values[equal] += ends[2] - (ends[3] if self.two_sided else 0.0)
        groups = [np.full(size, np.nan) for size in self._sizes]
        self._spread(groups, values)
        return groups

    def violated_components(self, values: Array) -> tuple[tuple[str, float], ...]:
        """Labels of the violated components with their violations, the largest first, given values (k,)."""
        violations = self.violations(values)
        order = [int(j) for j in np.argsort(-violations, kind="stable") if not violations[j] <= 0]
        return tuple((self.labels[j], float(violations[j])) for j in order)

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A label for each value of an evaluation (k,)."""
        return tuple(self._label(part, j) for part in self.parts for j in range(part.size))

    def components(self) -> list[Component]:
        """All components, those of each constraint together."""
        found = [
            Component(self._label(part, j), part.group, int(part.places[j]), float(part.lower[j]), float(part.upper[j]))
            for part in (*self.parts, *self.kept)
            for j in range(part.size)
        ]
        return sorted(found, key=lambda one: (one.group, one.place))

    @cached_property
    def _sizes(self) -> list[int]:
        """Components of each constraint."""
        sizes = [0] * len(self.names)
        for part in (*self.parts, *self.kept):
            sizes[part.group] = max(sizes[part.group], int(part.places[-1]) + 1 if part.size else 0)
        return sizes

    def _label(self, part: Part, j: int) -> str:
        name = self.names[part.group]
        return name if self._sizes[part.group] == 1 and name != "g" else f"{name}[{part.places[j]}]"

    def _spread(self, groups: list[Array], values: Array) -> None:
        """Enter values (k,) of an evaluation into those of the constraints."""
        begin = 0
        for part in self.parts:
            groups[part.group][part.places] = values[begin : begin + part.size]
            begin += part.size


def as_batched(constraints: ConstraintsLike | None, vectorized: object, workers: object) -> ConstraintsLike | None:
    """Constraints, of which functions get all points of a generation at once if the objective does."""
    return cast(ConstraintsLike, Batched(constraints)) if is_batched(vectorized, workers) else constraints


def is_batched(vectorized: object, workers: object) -> bool:
    """Whether the objective gets all points of a generation at once."""
    return vectorized is True and isinstance(workers, int) and workers == 1


def with_constraints(fun: Callable[..., object], constraints: Constraints | None) -> Callable[..., object]:
    """The objective with the values of constraints, if it has some."""
    return fun if constraints is None else constraints.objective(fun)


def _rows_of(part: Part, batched: bool, points: Array) -> Array:
    """Values (k,) at a point (d,), or (n, k) at points (n, d), of a function that takes several if `batched`."""
    rows = part.values(np.atleast_2d(points), batched)
    return rows if points.ndim > 1 else rows[0]


def _join_bounds(parts: Iterable[Part]) -> tuple[Array, Array]:
    """Lower and upper bounds of all components."""
    empty, found = np.zeros(0), list(parts)
    return (
        np.concatenate([empty, *(part.lower for part in found)]),
        np.concatenate([empty, *(part.upper for part in found)]),
    )


def _violations(values: Array, lower: Array, upper: Array) -> Array:
    return np.maximum(np.maximum(lower - values, values - upper), 0.0)


def is_given(constraints: object) -> bool:
    """Whether there are any: SciPy passes an empty tuple for none."""
    inner = constraints.constraints if isinstance(constraints, Batched) else constraints
    return inner is not None and not (isinstance(inner, list | tuple) and not inner)


def parse_constraints(constraints: object, tolerance: object, x0: Array, space: Space | None) -> Constraints | None:
    """The constraints of a problem, or None; the functions are called at x0 (d,) to know how many values they return.

    If there is a space, they are called with its named parameters.
    """
    tol = as_positive("constraint_tol", tolerance, or_zero=True)
    if isinstance(constraints, Constraints) or not is_given(constraints):
        return constraints if isinstance(constraints, Constraints) else None
    batched = isinstance(constraints, Batched)
    given: object = constraints.constraints if isinstance(constraints, Batched) else constraints
    is_list = isinstance(given, list | tuple)
    entries = list(cast("Sequence[object]", given)) if is_list else [given]
    parse = Parser(x0, space, batched)
    names = [f"constraints[{i}]" if is_list else "constraints" for i in range(len(entries))]
    parts = [part for i, entry in enumerate(entries) for part in parse(entry, i, names)]
    own = [part for part in parts if not part[1] and part[0].fun is None]
    if len(own) > 1:
        raise ValueError(
            "`constraints` must contain at most one integer, the number of constraint values that `fun` returns."
        )
    kept, handled = (tuple(part for part, is_kept in parts if is_kept == wanted) for wanted in (True, False))
    found = Constraints(handled, kept, tuple(names), tol, batched=batched)
    if not found.kept and found.count == 0:
        raise ValueError("`constraints` have no effect, because all their bounds are infinite. Leave them out.")
    return found


@dataclass(frozen=True, slots=True)
class Parser:
    """Makes parts of the entries of `constraints`."""

    x0: Array  # (d,)
    space: Space | None
    batched: bool

    def __call__(self, entry: object, group: int, names: list[str]) -> list[tuple[Part, bool]]:
        """The parts of an entry, and whether they are satisfied before the objective is called."""
        from scipy.optimize import LinearConstraint, NonlinearConstraint

        if isinstance(entry, NonlinearConstraint):
            fun = self._named(entry.fun, group, names)
            size = self._size_of(fun)
            bounds = _bounds(entry.lb, entry.ub, size, names[group])
            return _split(fun, bounds, np.broadcast_to(np.asarray(entry.keep_feasible, dtype=bool), size), group, names)
        if isinstance(entry, LinearConstraint):
            return self._linear(entry, group, names)
        if isinstance(entry, Mapping):
            return self._from_dict(cast("Mapping[str, Any]", entry), group, names)
        if isinstance(entry, int | np.integer) and not isinstance(entry, bool):
            return self._own(int(cast(int, entry)), group, names)
        hint = ""
        if callable(entry):
            hint = " A function c(x) ≤ 0 is NonlinearConstraint(c, -numpy.inf, 0)."
        raise TypeError(f"`{names[group]}` must be {FORMS}, got {short_repr(entry)}.{hint}")

    def _own(self, count: int, group: int, names: list[str]) -> list[tuple[Part, bool]]:
        """Values that the objective returns."""
        if count < 1:
            raise ValueError(f"`{names[group]}` must be at least 1 if it is a number of constraints, got {count}.")
        names[group] = "g"
        return [(Part(None, np.full(count, -np.inf), np.zeros(count), group, np.arange(count), is_own=True), False)]

    def _linear(self, entry: LinearConstraint, group: int, names: list[str]) -> list[tuple[Part, bool]]:
        """Linear constraints; equalities are satisfied to within the tolerance, like those of other functions."""
        matrix: Any = entry.A
        if not hasattr(matrix, "tocsr"):
            matrix = np.atleast_2d(np.asarray(matrix, dtype=np.float64))
        if matrix.shape[1] != self.x0.size:
            of_space = "" if self.space is None else f" ({', '.join(self.space.names)})"
            raise ValueError(
                f"`A` of `{names[group]}` must have a column for each of the {self.x0.size} variables{of_space}, got "
                f"shape {matrix.shape}."
            )
        self._check_columns(matrix, names[group])
        lower, upper = _bounds(entry.lb, entry.ub, matrix.shape[0], names[group])
        asked = np.broadcast_to(np.asarray(entry.keep_feasible, dtype=bool), lower.shape)
        keep = asked | (lower < upper)
        return _split(Linear(matrix), (lower, upper), keep, group, names)

    def _check_columns(self, matrix: Any, name: str) -> None:
        """Columns of choices must be 0."""
        if self.space is None:
            return
        used = np.asarray(abs(matrix).sum(axis=0)).ravel() != 0
        for parameter, is_used in zip(self.space.names, used, strict=True):
            if is_used and isinstance(self.space.parameters[parameter], Choice):
                raise ValueError(
                    f"`A` of `{name}` must be 0 in the column of {parameter!r}, because the values of a Choice are not "
                    "numbers. Use NonlinearConstraint(fun, lb, ub, keep_feasible=True), whose function gets the "
                    "parameters by name."
                )

    def _from_dict(self, entry: Mapping[str, Any], group: int, names: list[str]) -> list[tuple[Part, bool]]:
        """A constraint as for SLSQP: fun(x, *args) ≥ 0 or = 0."""
        kind, fun = entry.get("type"), entry.get("fun")
        if not isinstance(kind, str) or kind.lower() not in ("ineq", "eq") or not callable(fun):
            raise ValueError(
                f"`{names[group]}` must have the entries 'type', which is 'ineq' (fun ≥ 0) or 'eq' (fun = 0), and "
                f"'fun', a function, got {short_repr(dict(entry))}."
            )
        if unknown := sorted(entry.keys() - {"type", "fun", "args", "jac"}):
            raise ValueError(f"`{names[group]}` has unknown entries: {', '.join(unknown)}.")
        args = entry.get("args", ())
        more = cast("tuple[object, ...]", args) if isinstance(args, tuple) else (args,)
        called = self._named(partial(_call, fun, more) if more else fun, group, names)
        size = self._size_of(called)
        upper = np.full(size, np.inf if kind.lower() == "ineq" else 0.0)
        return _split(called, (np.zeros(size), upper), np.zeros(size, dtype=bool), group, names)

    def _named(self, fun: object, group: int, names: list[str]) -> ConstraintFunction:
        """The function of points."""
        if not callable(fun):
            raise TypeError(f"the function of `{names[group]}` must be callable, got {short_repr(fun)}.")
        return name_parameters(fun, self.space)

    def _size_of(self, fun: ConstraintFunction) -> int:
        """How many values a function returns at the start."""
        point = (self.x0[None] if self.batched else self.x0).copy()
        point.setflags(write=False)
        try:
            values = plain_array("constraints", call_objective(fun, point))
        except Exception as error:
            annotate_exception(error, f"sublevel: raised at x0 by the constraint function {short_repr(fun)}")
            raise
        if values.dtype.kind not in "fiubO" or values.ndim > 1 + self.batched or values.size == 0:
            raise ValueError(
                f"a constraint function must return one or more real numbers, got {short_repr(values)} at x0."
            )
        return values.size


def _call(fun: Callable[..., object], args: tuple[object, ...], x: Array) -> object:
    return fun(x, *args)


def _bounds(lower: object, upper: object, size: int, name: str) -> tuple[Array, Array]:
    """Bounds (size,) of the values of a constraint."""
    try:
        low, high = (np.broadcast_to(np.asarray(end, dtype=np.float64), (size,)).copy() for end in (lower, upper))
    except (TypeError, ValueError):
        raise ValueError(
            f"`lb` and `ub` of `{name}` must be numbers, one for each of its {size} values, got {short_repr(lower)} "
            f"and {short_repr(upper)}."
        ) from None
    if not np.all(low <= high) or np.any(low == np.inf) or np.any(high == -np.inf):
        raise ValueError(f"`lb` must be ≤ `ub` in `{name}`, got {short_repr(lower)} and {short_repr(upper)}.")
    return low, high


def _split(
    fun: ConstraintFunction, bounds: tuple[Array, Array], keep: NDArray[np.bool_], group: int, names: list[str]
) -> list[tuple[Part, bool]]:
    """The components that are satisfied before the objective is called, and the others."""
    lower, upper = bounds
    if np.any(keep & (lower == upper)):
        raise ValueError(
            f"`keep_feasible` of `{names[group]}` must be False for an equality (lb = ub): no random point satisfies "
            "it exactly. Leave it out: equalities are satisfied to within `constraint_tol`."
        )
    parts: list[tuple[Part, bool]] = []
    for is_kept in (True, False):
        places = np.flatnonzero(keep == is_kept)
        if places.size == keep.size:
            return [(Part(fun, lower, upper, group, places), is_kept)]
        if places.size:
            chosen = Linear(fun.matrix[places]) if isinstance(fun, Linear) else Components(fun, places)
            parts.append((Part(chosen, lower[places], upper[places], group, places), is_kept))
    return parts


def constrained_method(method: Method, handling: object, constraints: Constraints | None) -> Method:
    """The method with an ordering of constrained points: the one named, its own, or the augmented Lagrangian."""
    if handling is not None and not (isinstance(handling, str) and handling in ORDERINGS):
        names = ", ".join(map(repr, ORDERINGS))
        raise ValueError(f"`constraint_handling` must be one of {names}, got {short_repr(handling)}.")
    if constraints is None:
        if handling is not None:
            raise ValueError(f"`constraint_handling` needs `constraints`, got {handling!r} alone.")
        return method
    if not method.family.continuous:
        raise ValueError(
            "binary methods do not support `constraints`. Return a large value from `fun` at infeasible points."
        )
    added = [type(transform).__name__ for transform in method.transforms if transform.adds_points]
    if added and not constraints.is_projected:
        raise ValueError(
            f"a step-size rule that adds points to a sample ({added[0]}) cannot be combined with keep_feasible=True, "
            "because infeasible points are drawn again. Use another rule."
        )
    if not constraints.total:
        return method
    compared = [type(transform).__name__ for transform in method.transforms if transform.compares_generations]
    if compared:
        raise ValueError(
            f"a step-size rule that compares values of two generations ({compared[0]}) cannot be combined with "
            "`constraints`, because infeasible points may have lower values. Use another rule."
        )
    if handling is not None:
        return replace(method, ordering=ORDERINGS[handling]())
    return replace(method, ordering=ORDERINGS["augmented-lagrangian"]()) if method.ordering is BY_VALUE else method
