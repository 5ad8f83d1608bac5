"""The interface by `ask()` and `tell()`: a method, the state of a run and a random generator."""

from __future__ import annotations

import copy
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.constants import longest_run
from sublevel.engine.families import Family, Sample
from sublevel.engine.method import Info, Method, Outcome, State
from sublevel.engine.ordering import ConstraintHandling, LagrangianMemory, ranking
from sublevel.engine.sampling import exact_pairs
from sublevel.engine.transforms import ChoiceRates, Preselection
from sublevel.engine.transforms.preselection import MOST_VARIABLES
from sublevel.evaluation.values import as_constraint_values, as_values, plain_array
from sublevel.run.arguments import Box, RestartRule, Seed, StartingPoint
from sublevel.run.constraints import TOLERANCE, ConstraintsLike, constrained_method, parse_constraints
from sublevel.run.initial import checked_beginning, covariance_of, deviations_of, mean_of
from sublevel.run.narrowing import WAITS, beginnings, sigma_factor
from sublevel.run.noisy_answer import AVERAGED, Estimate, EvaluatedSample, better_of, central_best, level_of
from sublevel.run.resampling import STARTS, draw_feasible
from sublevel.run.restarts import FinishedRuns, Once, Run
from sublevel.run.restarts.protocol import SHARE
from sublevel.run.search_space import SearchSpace
from sublevel.run.state import Best, Lowest, RunState, first_state, next_state
from sublevel.run.sweep import Changes, Sweep
from sublevel.run.termination import (
    CONVERGED,
    SLOW,
    Endings,
    Reason,
    Standing,
    Tolerances,
    Window,
    find_reason,
    lengths,
)
from sublevel.summaries import Summary, counted, short_array
from sublevel.validation import (
    as_flag,
    as_generator,
    as_method,
    as_popsize,
    as_restarts,
    as_surrogate,
    as_tolerance,
    default_method,
    default_name,
    explain_keywords,
    is_seed,
    short_repr,
    validate_memory,
)

if TYPE_CHECKING:
    from sublevel.surrogate.control import Surrogate
    from sublevel.surrogate.known import Known
    from sublevel.surrogate.partial import PartialGenerations

LOGGER = logging.getLogger(__name__)
NARROWER = 0.1
"""Standard deviations of a search that begins again around its best point, as a part of the initial ones. The share of
targets on COCO's suite bbob-mixint in 10 dimensions is the same, within 0.7 points, for 0.05 and 0.2."""
SWEPT = 0.01
"""The same after changes of single variables have found a better point."""
NO_MEDIAN = -np.inf
"""In place of the median of a generation of changes of single variables: a search ends before values reach it."""
WITHIN_REACH = 10.0
"""Standard deviations from the mean within which a search may still find its best point again."""
INJECTION_REACH = 3.0
"""Points that were not drawn from the current distribution count with a length ‖z‖ of at most √d plus this number,
which few drawn points exceed. (Hansen, INRIA RR-7748, clips at √d + 2d/(d + 2).)"""


class Optimizer:
    """Minimise with an ask-and-tell interface.

    Parameters
    ----------
    x0, sigma0, method, popsize, cov0, bounds, log_scaled, integrality, restarts, rng, tolfun, tolx, rtolfun,
    noise_floor, names
        As for `minimize`.
    noise : bool, optional
        Whether the values are noisy. `best_x` is then the mean of the search distribution, or with constraints a
        feasible point near the mean, and `best_fun` the average of the medians of recent generations. Evaluate
        `best_x` several times to estimate f there, as `minimize` does.
    constraints, constraint_tol, constraint_handling
        As for `minimize`. `ask` returns points that satisfy linear and ``keep_feasible`` constraints; the values of the
        others are passed to `tell`, which calls the constraint functions if there are any.
    surrogate
        As for `minimize`; an integer is the number of points that `ask` returns, more if the model is poor. A
        generation then takes one or several calls of `ask` and `tell`, and `ask` returns the same points until their
        values are told.
    known
        As for `minimize`: evaluations for the first model of a surrogate.

    Notes
    -----
    Returned arrays are read-only. Unlike `minimize`, an optimizer does not evaluate `x0`. It can be copied and pickled
    at any time.

    Examples
    --------
    >>> import numpy as np, sublevel as sl
    >>> opt = sl.Optimizer(np.ones(4), 0.5, rng=1)
    >>> while not opt.stop():
    ...     X = opt.ask()  # (popsize, 4)
    ...     opt.tell(X, np.sum(X**2, axis=1))
    >>> bool(opt.best_fun < 1e-18)
    True
    """

    @explain_keywords
    def __init__(
        self,
        x0: StartingPoint,
        sigma0: ArrayLike | None = None,
        *,
        method: str | Method | None = None,
        popsize: int | None = None,
        cov0: ArrayLike | None = None,
        bounds: Box | None = None,
        log_scaled: ArrayLike = False,
        integrality: ArrayLike | None = None,
        restarts: RestartRule | None = None,
        rng: Seed | None = None,
        tolfun: float | None = None,
        tolx: float | None = None,
        rtolfun: float | None = None,
        noise: bool = False,
        noise_floor: bool = True,
        names: Sequence[str] | None = None,
        constraints: ConstraintsLike | None = None,
        constraint_tol: float = TOLERANCE,
        constraint_handling: ConstraintHandling | None = None,
        surrogate: bool | int = False,
        known: Known | None = None,
    ) -> None:
        """Start from N(x0, sigma0²·cov0)."""
        self.noise = as_flag("noise", noise)
        self.estimate: Estimate | None = None  # of a noisy objective at the answer, by `minimize`
        self.reevaluated = 0  # evaluations for estimates, which are not in `run_state`
        self.method = as_method(default_method(self.noise) if method is None else method)
        self.rng = as_generator(rng)
        self.owns_generator = is_seed(rng) and not callable(x0)  # whether no code of the user has it
        self.start = checked_beginning(
            self.method.family, x0, sigma0, cov0, bounds, log_scaled, integrality, names, self.rng
        )
        self.constraints = parse_constraints(constraints, constraint_tol, self.start.x0, self.start.parameters)
        self._constrain(constraint_handling)
        if self.start.space is not None and self.start.space.choices.size:
            self.method = replace(self.method, transforms=(*self.method.transforms, ChoiceRates()))
        self.tolerances = Tolerances(
            as_tolerance("tolfun", tolfun),
            as_tolerance("tolx", tolx),
            as_tolerance("rtolfun", rtolfun),
            as_flag("noise_floor", noise_floor),
        )
        theta = self.start.theta(self.start.x0)
        self.strategy, self.finished, self.endings = as_restarts(restarts), FinishedRuns(), Endings()
        size, at_a_time = self.method.popsize if popsize is None else popsize, as_surrogate(surrogate)
        self.changes = None if at_a_time else self._make_changes(theta)
        self._size = as_popsize(size, self.start.searched, at_a_time > 0)
        if self._preselects:
            self.method = replace(self.method, transforms=(*self.method.transforms, Preselection()))
        run = self.strategy.next_run(self.finished, self._size, self.rng)
        if run is None:
            raise ValueError(f"`restarts` must make at least one run, got {short_repr(restarts)}.")
        if run.x0 is not None:
            theta = self.start.theta(run.x0, run.sigma_factor)
        deviations = self.start.judged_deviations(theta)
        x0 = read_only(self.start.x0)
        self.partial: PartialGenerations | None = None  # with a surrogate
        lowest = Lowest.none(AVERAGED, x0) if self._has_averages else None
        sweeps = self.changes is not None
        state = first_state(self.method, run, theta, x0, deviations, self.inequalities, sweeps, lowest)
        self._enter(self._with_surrogate(state, at_a_time, known))

    @property
    def _has_averages(self) -> bool:
        """Whether the answer may be an average of points, as for a noisy objective of real variables without
        constraints.
        """
        return self.noise and self.constraints is None and self.method.family.continuous and not self._is_mixed

    def _with_surrogate(self, state: RunState, at_a_time: int, known: Known | None) -> RunState:
        """The first state with a surrogate of so many evaluations at a time; as it is if they are 0."""
        if not at_a_time and known is not None:
            raise ValueError(
                "`known` feeds the model of a surrogate: pass surrogate=True as well, or begin with `warm_start`."
            )
        if not at_a_time:
            return state
        from sublevel.surrogate.known import known_archive
        from sublevel.surrogate.partial import PartialGenerations, check_surrogate

        start = self.start
        check_surrogate(self.method, start.space, start.searched, self.constraints is not None, self.noise)
        self.partial = PartialGenerations(at_a_time, start.searched, start.space)
        archive = None if known is None else known_archive(known, start)
        return replace(state, surrogate=self.partial.begin_run(state.search.theta, state.run.popsize, archive))

    @property
    def _preselects(self) -> bool:
        """Whether points are preselected: in spaces of few variables, real ones and choices, by small samples.

        Without choices this gains evaluations at first, but loses them later. Without real variables all points of a
        sample may become equal. Values of infeasible points cannot be compared.
        """
        space, size = self.start.space, self._size
        if space is None or not space.choices.size or not space.judged.any() or self.constraints is not None:
            return False
        return self.start.searched <= MOST_VARIABLES and 2 * size <= Preselection.capacity

    def _make_changes(self, theta: Family) -> Changes | None:
        """The changes of single variables that are tried, given the initial distribution; None if no run tries any. Of
        a noisy objective, the best of many values would be a lucky one.
        """
        may_try = self._is_mixed or (self.strategy.tries_changes and self.method.family.continuous)
        return Changes.of(self.start.whole_space, theta.deviations) if may_try and not self.noise else None

    def forgo_changes(self) -> None:
        """Try no changes of single variables in any run; before the first generation."""
        self.changes, self.run_state = None, replace(self.run_state, sweep=None)

    @property
    def _is_mixed(self) -> bool:
        """Whether some variables are integers or categories."""
        return self.start.space is not None and self.start.space.is_mixed

    def _constrain(self, handling: object) -> None:
        """Give the method an ordering of constrained points, and check the start."""
        self.method = constrained_method(self.method, handling, self.constraints)
        if self.constraints is not None:
            two_sided = self.method.ordering.two_sided_equalities
            self.constraints = replace(self.constraints, two_sided=two_sided)
            self.constraints.check_start(self.start.x0, self.start.parameters)

    @property
    def inequalities(self) -> int:
        """Number of inequalities that the ordering handles."""
        return 0 if self.constraints is None else self.constraints.total

    def _enter(self, state: RunState, best: Iterable[float] = (), medians: Iterable[float] = ()) -> None:
        """Go on from a state, given the best and median values of its run's generations."""
        self.run_state = state
        self.last: Info | None = None
        self._window = Window(lengths(state.search.theta.dimension, state.run.popsize).kept, best, medians)
        self._pending: Sample | None = None
        self._tried: int | None = None  # changes of a sweep that are tried once the pending values are told
        self._asked: Array | None = None
        self._linear: Array | None = None  # (n, q), linear inequalities of the pending sample
        self._deviations: Array | None = None
        self._reason: tuple[Reason | None] | None = None

    @property
    def state(self) -> State:
        """The search distribution and the memories of the parts of the method."""
        return self.run_state.search

    @property
    def nfev(self) -> int:
        """Number of evaluations so far."""
        return self.run_state.nfev + self.reevaluated

    @property
    def nit(self) -> int:
        """Number of generations so far."""
        return self.run_state.nit

    @property
    def restarts(self) -> int:
        """Number of restarts so far."""
        return self.run_state.restarts

    @property
    def popsize(self) -> int:
        """Number of points per generation."""
        return self.run_state.run.popsize

    @property
    def first_popsize(self) -> int:
        """Number of points per generation of the first run; restarts may have others."""
        return self.finished[0][0].popsize if len(self.finished) else self.popsize

    @property
    def best_x(self) -> Array:
        """The best point so far (d,), read-only; `x0` if there is no value yet. With `noise`, the mean."""
        return read_only(self.run_state.best.x if self.estimate is None else self.estimate.x)

    @property
    def best_fun(self) -> float:
        """Value at `best_x`; NaN if there is none yet. With `noise`, the average of medians of recent generations."""
        return self.run_state.best.fun if self.estimate is None else self.estimate.fun

    @property
    def best_constraints(self) -> Array | None:
        """Constraint values (k,) at `best_x`, None if they are not known."""
        return self.run_state.best.constraints if self.estimate is None else self.estimate.constraints

    @property
    def maxcv(self) -> float:
        """Largest violation of a constraint at `best_x`, 0 if there are none; NaN if there is no value yet."""
        return 0.0 if self.constraints is None else self.constraints.largest_violation(self.best_constraints)

    @property
    def is_feasible(self) -> bool:
        """Whether `best_x` has no violation of more than `constraint_tol`."""
        constraints, values = self.constraints, self.best_constraints
        if constraints is None or (
            self.estimate is None and values is not None and self.run_state.best.violation == 0.0
        ):
            return True
        return constraints.allows(values)

    @property
    def multipliers(self) -> list[Array] | None:
        """Lagrange multipliers of each constraint; None if the ordering has none, or if an earlier run is the best."""
        memory, constraints = self.state.ordering, self.constraints
        if constraints is None or not isinstance(memory, LagrangianMemory) or self.run_state.best.theta is not None:
            return None
        return constraints.multipliers(memory.multipliers)

    @property
    def violated(self) -> tuple[tuple[str, float], ...]:
        """Labels of the constraints that `best_x` violates, with the violations; none if it is feasible."""
        values = self.best_constraints
        if self.constraints is None or values is None or self.is_feasible:
            return ()
        return self.constraints.violated_components(values)

    @property
    def best_run(self) -> int:
        """Index of the run that found `best_x`; 0 is the first run."""
        return self.run_state.best.run

    @property
    def theta(self) -> Family:
        """The search distribution, in the space that is searched."""
        return self.run_state.search.theta

    @property
    def theta_of_best(self) -> Family:
        """The search distribution of the run that found the best point: as it is, or as it was when that run ended."""
        return self.run_state.best.theta or self.run_state.search.theta

    def ending_of_best(self, reasons: Mapping[str, float]) -> Mapping[str, float]:
        """Why the run that found the best point ended, given the reasons of the last run, which are the default."""
        is_last = self.best_run == self.restarts or self.best_fun != self.best_fun
        return reasons if is_last else self.endings[self.best_run]

    @property
    def is_sweeping(self) -> bool:
        """Whether the next points are changes of single variables of the best point, which are not drawn."""
        return self.changes is not None and self.run_state.sweep is not None and self.run_state.sweep.is_active

    @property
    def _has_swept(self) -> bool:
        """Whether the points of the last generation were changes of single variables."""
        return self.changes is not None and self.run_state.sweep is not None and self.run_state.sweep.is_last

    @property
    def _has_found(self) -> bool:
        """Whether the search goes on around a better point that changes of single variables have found."""
        return self.run_state.sweep is not None and self.run_state.sweep.has_succeeded

    @property
    def space(self) -> SearchSpace | None:
        """How a point of the searched space becomes the user's; None if they are the same."""
        return self.start.space

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables (d,): x[0], x[1] … if none were given."""
        return self.start.names or tuple(map(default_name, range(self.start.x0.size)))

    @property
    def mean(self) -> Array:
        """Mean of the search distribution (d,), as a point of the user's space."""
        return read_only(mean_of(self.theta, self.space))

    @property
    def cov(self) -> Array:
        """Covariance of the search distribution (d, d), ∝ the inverse Hessian once learned; 0 for fixed variables."""
        return covariance_of(self.theta, self.space)

    @property
    def deviations(self) -> Array:
        """Standard deviation of each free variable (k,)."""
        if self._deviations is None:
            self._deviations = read_only(self.state.theta.deviations)
        return self._deviations

    @property
    def generation_best(self) -> float:
        """Best value of the last sample told; NaN if there is none, and after changes of single variables."""
        return np.nan if self._has_swept else self.run_state.standing.latest

    @property
    def generation_median(self) -> float:
        """Median value of the last sample told, with constraints that of its feasible points; infinite if none is, and
        −inf after changes of single variables, which have none.
        """
        if self._has_swept:
            return NO_MEDIAN
        return self._window.medians[-1] if self._window.medians else np.nan

    def ask(self) -> Array:
        """Return the next points to evaluate.

        If the current run has ended, the next run of the restart strategy begins. If it has converged with integers or
        choices, changes of single variables of the best point are returned before. A sample whose values were not
        passed to `tell` is discarded.

        Returns
        -------
        ndarray, shape (popsize, d)
            The points, read-only. With a surrogate, only those that need an evaluation, of any number, and the same
            ones until `tell` is called.
        """
        if self.partial is not None:
            return self._ask_part(self.partial)
        self.advance()
        if self.changes is not None and (sweep := self.run_state.sweep) is not None and sweep.is_active:
            return self._ask_changes(self.changes, sweep)
        search, popsize, space = self.run_state.search, self.run_state.run.popsize, self.start.space
        if self._asked is None:  # the first sample of a run: later ones are as large
            validate_memory(popsize, search.theta.dimension)
        self._pending = sample = self.method.ask(search, self.rng, popsize)
        if self.constraints is not None and self.constraints.kept:
            kept, anchor = self.constraints, self.best_x
            self._pending, points, self._linear = draw_feasible(
                search.theta, sample, self.rng, space, kept.satisfied, anchor, kept.half_spaces
            )
        else:
            points = sample.x if space is None else space.points(sample.x)
        self._asked = read_only(points)
        return points

    def take_sample(self, searched: Array) -> Array:
        """Let search points (popsize, k + m), which need not be drawn from the current distribution, be the pending
        sample; return the points (popsize, d) to tell the values of.

        A point further from the mean than `INJECTION_REACH` allows pulls as if it were nearer, in the same direction.
        """
        theta, space = self.run_state.search.theta, self.start.space
        k = theta.dimension
        z = theta.whiten(searched[:, :k])
        if self.method.sampling.mirrored:
            z = exact_pairs(z)
        lengths_of_z = np.sqrt(np.sum(z**2, axis=1, keepdims=True))
        z = z * np.minimum(1.0, (np.sqrt(k) + INJECTION_REACH) / np.maximum(lengths_of_z, 1.0))
        choices = None if theta.choices is None else searched[:, k:].astype(np.intp)
        self._pending, self._tried = theta.sample_at(z, choices), None
        self._asked = read_only(searched.copy() if space is None else space.points(searched))
        return self._asked

    def tell(self, X: ArrayLike, values: ArrayLike, constraints: ArrayLike | None = None) -> None:
        """Pass the values of the points that `ask` returned, and update the search distribution.

        Parameters
        ----------
        X : array_like, shape (popsize, d)
            The points that `ask` returned, in any order.
        values : array_like, shape (popsize,)
            Their values; NaN is worse than +inf.
        constraints : array_like, shape (popsize, k), optional
            Values of the constraints other than linear and ``keep_feasible`` ones, in the order in which these were
            passed to the optimizer. If they are left out, the constraint functions are called.

        Raises
        ------
        RuntimeError
            If there is no sample whose values are missing: call `ask` first.
        ValueError, TypeError
            If `X` are other points, or an array has a wrong shape or type. The call can then be repeated.
        """
        if self.partial is not None:
            return self._tell_part(self.partial, X, values)
        sample, asked, state = self._pending, self._asked, self.run_state
        if (sample is None and self._tried is None) or asked is None:
            raise RuntimeError("`tell()` without a pending sample: call `ask()` before each `tell()`.")
        values = as_values(values, state.run.popsize)
        positions = slice(None) if X is asked else _positions(X, asked)
        values = values if X is asked else values[positions]
        given = g = every = None
        if self.constraints is not None or constraints is not None:
            given, g, every = self._told_constraints(constraints, positions, asked)
        if sample is None:
            return self._record_changes(values, asked, given, g)
        space = self.start.space
        if space is None or space.grid is None:
            search, info = self.method.tell(state.search, sample, values, every)
        else:
            search, info = space.grid.tell(self.method, state.search, sample, values, every)
        self._record(search, info, values, sample.x, sample.squares, asked, given, g)

    def _ask_part(self, partial: PartialGenerations) -> Array:
        """The points of a generation that are evaluated next (k, d)."""
        if partial.is_over:
            self.restart()
            state = self.run_state
            if state.surrogate is None:
                raise RuntimeError("the state has no surrogate")
            search = state.search
            sample = self.method.ask(search, self.rng, state.run.popsize)
            self._pending = partial.begin(state.surrogate, search.theta, sample)
        return partial.ask()

    def _tell_part(self, partial: PartialGenerations, X: ArrayLike, values: ArrayLike) -> None:
        """Take values (k,); the method steps if they suffice. Termination only sees values of the objective."""
        asked = partial.asked
        if asked is None:
            raise RuntimeError("`tell()` without a pending sample: call `ask()` before each `tell()`.")
        values = as_values(values, len(asked))
        values = values if X is asked else values[_positions(X, asked)]
        told = partial.tell(values)
        self.note(asked, values)
        if told is not None:
            state = self.run_state
            self.run_state = replace(state, nfev=state.nfev - told.true_values.size, surrogate=told.surrogate)
            search, info = self.method.tell(state.search, told.sample, told.values)
            if partial.is_trusted(told.surrogate):
                search = self._step_by_model(partial, told.surrogate, search)
            info = Info(info.outcome, ranking(told.true_values))
            self._record(search, info, told.true_values, told.searched, told.squares, told.points)

    def _step_by_model(self, partial: PartialGenerations, surrogate: Surrogate, search: State) -> State:
        """The search after a step with the values that the model gives to all points of a sample."""
        space = self.start.space
        search = search if space is None else space.limit(search)
        sample = self.method.ask(search, self.rng, self.run_state.run.popsize)
        told = partial.by_model(surrogate, search.theta, sample)
        return search if told is None else self.method.tell(search, *told)[0]

    def _told_constraints(
        self, told: ArrayLike | None, positions: NDArray[np.intp] | slice, asked: Array
    ) -> tuple[Array | None, Array | None, Array | None]:
        """Constraint values (n, k) of the points asked (n, d), the inequalities (n, m) that follow from them, and all
        inequalities for the ordering; None each if it has none.
        """
        constraints = self.constraints
        if told is not None and (constraints is None or not constraints.size):
            raise ValueError(
                "`tell` got `constraints`, but the optimizer has none. Pass the number of their values: "
                "Optimizer(..., constraints=m)."
            )
        if constraints is None or not constraints.total:
            return None, None, None
        if told is None:
            values = constraints.values(asked)
        else:
            values = as_constraint_values(told, (len(asked), constraints.size))[positions]
        g = constraints.g(values)
        return values, g, g if self._linear is None else np.concatenate([g, self._linear], axis=1)

    def tell_elsewhere(
        self, search: State, info: Info, values: Array, points: Array, best_x: Array, squares: Array | None
    ) -> None:
        """Step of a sample that was not asked here, with its values (popsize,), some of its search points (m, k) and
        the best x (d,).

        `squares` are ‖z‖² (popsize,) if they are known.
        """
        self._record(search, info, values, points, squares, best_x[None])

    def _record(
        self,
        search: State,
        info: Info,
        values: Array,
        searched: Array,
        squares: Array | None,
        points: Array,
        constraints: Array | None = None,
        g: Array | None = None,
    ) -> None:
        """Enter a generation: the search after its step, search points (m, k), points (n, d) or the best one (1, d),
        constraint values and inequalities, if any.
        """
        if self.start.space is not None:
            search = self.start.space.limit(search)
        before, sweep = self.run_state, self.run_state.sweep
        best, feasible = self._best_after(points, values, info, constraints, g)
        standing = before.standing.after(search.theta, info, values, searched, squares, self._window, feasible)
        if self.noise:
            best = self._central(search.theta, EvaluatedSample(points, values, squares, constraints, g))
        elif self.start.space is not None and standing.misses_best(self._window):
            search, standing = self._return_to(best, self.start.space, search, standing)
        elif (factor := self._narrower(best, standing)) is not None:
            LOGGER.info("begin again at the start, as no point was as good, with %g of the deviations", factor)
            search = self._begin_at(best, factor, search)
        nfev, nit, sweep = before.nfev + values.size, before.nit + 1, None if sweep is None else sweep.after_search()
        run, began, restarts, leader = before.run, before.began, before.restarts, before.leader
        self.run_state = RunState(
            search, run, began, nfev, nit, restarts, best, standing, leader, before.surrogate, sweep
        )
        self.last, self._pending, self._deviations, self._reason = info, None, None, None
        self.estimate = None

    def _best_after(
        self, points: Array, values: Array, info: Info, constraints: Array | None, g: Array | None
    ) -> tuple[Best, NDArray[np.bool_] | None]:
        """The best point after a generation, and which of its points are feasible (n,); None without constraints."""
        best, run = self.run_state.best, self.run_state.restarts
        if constraints is None or g is None:
            return self._same_minimum(best, best.after(points, info.ranks, run)), None
        feasible = (g <= 0).all(axis=1) & (values == values)
        return self._same_minimum(best, best.after_constrained(points, values, constraints, g, run)), feasible

    def _return_to(self, best: Best, space: SearchSpace, search: State, standing: Standing) -> tuple[State, Standing]:
        """The search and the standing as they are if the real variables of the best point are within reach; else those
        of a search that begins again there.
        """
        theta = search.theta
        if np.all(space.distances(theta.mean, best.x) <= WITHIN_REACH * theta.deviations, where=space.judged):
            return search, standing
        LOGGER.info("return to the best point, whose value %.8g is below that of recent generations", best.fun)
        return self._begin_at(best, NARROWER, search), standing.begin_again(standing.lowest)

    def _narrower(self, best: Best, standing: Standing) -> float | None:
        """Part of the initial standard deviations with which the first run begins again, because its start, evaluated
        alone, is better than all points; None if it goes on. Discrete variables and constraints have other ways back.
        """
        return sigma_factor(standing.generations) if self._stays_at_start(best, standing) else None

    def _stays_at_start(self, best: Best, standing: Standing) -> bool:
        """Whether the first run has not found a point as good as its start, where it may begin again."""
        is_start = best.fun < np.inf and not standing.lowest <= best.fun and not self.run_state.restarts
        is_real = self.method.family.continuous and not self._is_mixed
        return is_start and is_real and not self.noise and self.constraints is None

    def _begin_at(self, best: Best, sigma_factor: float, search: State) -> State:
        """A search that begins again around the best point, but for the memory of the ordering."""
        theta = self.start.theta(best.x, sigma_factor)
        if self.start.space is not None:
            theta = self.start.space.settle(theta, best.x)
        return replace(self.method.init(theta, self.popsize, self.inequalities), ordering=search.ordering)

    @property
    def _sweep_is_due(self) -> bool:
        """Whether the run begins with changes of single variables, or has converged to the best point so far, of which
        none have been tried.
        """
        state, changes = self.run_state, self.changes
        if changes is None or state.sweep is None or state.sweep.is_active or state.best.tried >= changes.total:
            return False
        if self._begins_with_changes:
            return state.nfev == state.began
        if state.best.run != state.restarts or state.standing.found_nothing:
            return False
        reason = self._run_reason() if self._is_mixed or state.run.tries_changes else None
        return reason is not None and reason.name in CONVERGED and state.best.fun != state.sweep.level

    @property
    def _begins_with_changes(self) -> bool:
        """Whether the run is one that begins with changes, and has not drawn a sample yet."""
        return self.run_state.run.tries_changes and self.run_state.standing.generations == 0

    def _begin_sweep(self, changes: Changes) -> None:
        """Begin to try changes of single variables of the best point."""
        state = self.run_state
        spent = state.nfev - state.began
        allowed = SHARE * spent if spent else state.run.maxfevals
        sweep = Sweep.begin(changes, allowed, state.run.popsize, state.best.fun, state.best.tried)
        self.run_state, self._reason = replace(state, sweep=sweep), None
        count = sweep.size - sweep.position
        LOGGER.info("try %d changes of single variables of the best point, whose value is %.8g", count, sweep.level)

    def _ask_changes(self, changes: Changes, sweep: Sweep) -> Array:
        """The next points (popsize, d) of a sweep."""
        constraints = self.constraints
        is_allowed = constraints.satisfied if constraints is not None and constraints.kept else None
        points, self._tried = changes.next_points(self.run_state.best.x, sweep, self.popsize, is_allowed)
        self._asked, self._pending, self._linear = read_only(points), None, None
        return self._asked

    def _record_changes(self, values: Array, points: Array, constraints: Array | None, g: Array | None) -> None:
        """Enter a generation of a sweep: values, points (n, d), constraint values and inequalities, if any."""
        before, info = self.run_state, Info(Outcome.MOVED, ranking(values))
        if before.sweep is None or self._tried is None:
            raise RuntimeError("there is no sweep")
        best, _ = self._best_after(points, values, info, constraints, g)
        sweep = before.sweep.after(self._tried, best.fun, self.tolerances.equality(before.sweep.level))
        search, standing = before.search, before.standing
        if sweep.has_succeeded:
            LOGGER.info("go on around a better point, whose value is %.8g", best.fun)
            search, standing = self._begin_at(best, SWEPT, search), standing.begin_again(best.fun)
        elif not sweep.is_active:
            best = replace(best, tried=self._tried)
        nfev, nit = before.nfev + values.size, before.nit + 1
        self.run_state = replace(before, search=search, nfev=nfev, nit=nit, best=best, standing=standing, sweep=sweep)
        self.last, self._tried, self._deviations, self._reason = info, None, None, None

    def _central(self, theta: Family, sampled: EvaluatedSample) -> Best:
        """The answer of a noisy objective after a generation: that of this run, or of a better one before."""
        state, level = self.run_state, level_of(self._window.medians)
        run, space = state.restarts, self.start.space
        return better_of(central_best(theta, space, self.constraints, sampled, level, state.best, run), state.leader)

    def note(self, points: Array, values: Array, constraints: Array | None = None) -> None:
        """Count evaluations and keep the best point, without updating the search distribution.

        If the first generations find no point as good, the search begins again at the best point, as at `x0`.

        Parameters
        ----------
        points : ndarray, shape (n, d)
            Evaluated points.
        values : ndarray, shape (n,)
            Their values.
        constraints : ndarray, shape (n, k), optional
            Their constraint values.
        """
        if values.size:
            state = self.run_state
            best = self.better(state.best, points, values, constraints, state.restarts)
            self.run_state = replace(state, nfev=state.nfev + values.size, best=best)

    def better(self, best: Best, points: Array, values: Array, constraints: Array | None, run: int) -> Best:
        """The best point after evaluations without a step: `best`, or one of points (n, d) of a run with values (n,)
        and constraint values (n, k). No single value decides with `noise`.
        """
        if self.noise:
            return best
        if constraints is None and self.constraints is not None and not self.constraints.parts:
            constraints = np.zeros((values.size, 0))
        if constraints is None or self.constraints is None or not self.inequalities:
            return self._same_minimum(best, best.after(points, ranking(values), run))
        g = self.constraints.g(constraints)
        return self._same_minimum(best, best.after_constrained(points, values, constraints, g, run))

    def stop(self) -> dict[str, float]:
        """Return the reasons for stopping. The optimizer does not change.

        Returns
        -------
        dict
            The reasons by name, each with the number that decided it. Empty if the search continues; with restarts,
            until the last run has ended, since `ask` begins the next run.
        """
        reason = self._run_reason()
        if reason is None or self._next_run() is not None or self._sweep_is_due:
            return {}
        if self.strategy.is_answered(self._with_this_run()):
            reason = Reason("recurring", float(self._returns))
        return {reason.name: reason.value}

    def reason_without_sweep(self) -> dict[str, float]:
        """The reason for stopping if the sweep in progress is not finished; none if there is no sweep, or if another
        run would follow.
        """
        if not self.is_sweeping or self._next_run() is not None:
            return {}
        reason = self._find_reason()
        return {} if reason is None else {reason.name: reason.value}

    def advance(self) -> None:
        """Begin what follows if the current run has converged or ended: a sweep over its variables, or the next run;
        `ask` does so by itself.
        """
        changes = self.changes
        if changes is None or not self._sweep_is_due:
            self.restart()
        if changes is not None and self._sweep_is_due:
            self._begin_sweep(changes)

    def restart(self) -> bool:
        """Begin the next run of the restart strategy if the current one has ended.

        Returns
        -------
        bool
            Whether a run has begun.
        """
        if isinstance(self.strategy, Once) or (reason := self._run_reason()) is None or self._next_run() is None:
            return False
        state = self.run_state
        spent = state.nfev - state.began
        self.finished = self._with_this_run()
        state = replace(state, best=replace(state.best, returns=self._returns))
        self.endings.append(reason)
        run = self.strategy.next_run(self.finished, self._size, self.rng)
        if run is None:
            raise RuntimeError("`next_run` of the restart strategy must depend only on its arguments.")
        LOGGER.info(
            "restart %d with popsize %d: the previous run ended with %s after %d evaluations, best value so far %.8g",
            *(state.restarts + 1, run.popsize, reason.name, spent, state.best.fun),
        )
        theta = self.start.theta(self._restart_point() if run.x0 is None else run.x0, run.sigma_factor)
        deviations = self.start.judged_deviations(theta)
        after = next_state(state, self.method, run, theta, deviations, self.inequalities, self.noise)
        self._enter(
            after if self.partial is None else replace(after, surrogate=self.partial.begin_run(theta, run.popsize))
        )
        return True

    def _restart_point(self) -> Array:
        """Where a restart begins: a random point that satisfies linear and `keep_feasible` constraints, or the best."""
        point = self.start.point(self.rng)
        if self.constraints is None or not self.constraints.kept:
            return point
        for _ in range(STARTS):
            if self.constraints.satisfied(point[None].copy())[0]:
                return point
            point = self.start.point(self.rng)
        return self.best_x

    def _run_reason(self) -> Reason | None:
        """The reason to end the current run; None while a sample is pending or a sweep in progress. Computed once for a
        state.
        """
        state = self.run_state
        if self._pending is not None or self.is_sweeping:
            return None
        if self._begins_with_changes and self._has_swept and state.best.tried and not self._has_found:
            return Reason("unchanged", float(state.best.tried))
        if state.standing.generations == 0:
            return None
        if self._reason is None:
            self._reason = (self._find_reason(),)
        return self._reason[0]

    def _find_reason(self) -> Reason | None:
        state = self.run_state
        theta, n = state.search.theta, state.run.popsize
        reason = find_reason(
            state.standing, self._window, self.tolerances, theta, self.deviations, n, lambda: state.search.pace
        )
        if reason is not None and reason.name in CONVERGED and self._will_widen:
            reason = None
        spent = state.nfev - state.began
        return Reason("run_budget", float(spent)) if reason is None and spent >= self._allowance() else reason

    @property
    def _will_widen(self) -> bool:
        """Whether the search is to begin again around its start, or has drawn no sample since it last did, so that its
        width and values say nothing about convergence.
        """
        best, standing = self.run_state.best, self.run_state.standing
        return beginnings(standing.generations - 1) < len(WAITS) and self._stays_at_start(best, standing)

    def _next_run(self) -> Run | None:
        """The run that would follow if the current one ended now, found with a copy of the generator."""
        runs = self._with_this_run()
        if self.strategy.is_answered(runs):
            return None
        return self.strategy.next_run(runs, self._size, copy.deepcopy(self.rng))

    def _with_this_run(self) -> FinishedRuns:
        """The runs as they are if the current one ends now."""
        runs, state = self.finished.copy(), self.run_state
        runs.append(state.run, state.nfev - state.began, self._best_start(), self._untried, self._returns)
        return runs

    def _best_start(self) -> Array | None:
        """The best point, where it is also a start: bits start with probabilities."""
        return self.best_x if self.method.family.continuous else None

    @property
    def _untried(self) -> int:
        """Changes of single variables of the best point that have not been tried."""
        best = self.run_state.best
        return 0 if self.changes is None or best.fun != best.fun else self.changes.total - best.tried

    @property
    def _returns(self) -> int:
        """Consecutive runs that ended at the best point if the current one ends now."""
        best, changes = self.run_state.best, self.changes
        if changes is None or best.fun != best.fun or self.run_state.run.tries_changes:
            return best.returns
        reason = self._run_reason()
        resolution = None if reason is None or reason.name not in CONVERGED else self.deviations
        return best.returns + 1 if changes.is_near(self.mean, best.x, resolution) else 0

    def _same_minimum(self, before: Best, after: Best) -> Best:
        """A best point with the numbers of that before, if it is the same but for the precision of a search."""
        changes = self.changes
        if after is before or changes is None or not (before.returns or before.tried):
            return after
        resolution = before.theta.deviations if before.returns and before.theta is not None else None
        if not changes.is_near(before.x, after.x, resolution):
            return after
        return replace(after, tried=before.tried, returns=before.returns)

    def _allowance(self) -> float:
        """Evaluations the run may take: the strategy's, and at most `longest_run` unless its rates are reduced."""
        state = self.run_state
        if isinstance(self.strategy, Once) or state.search.pace < SLOW:
            return state.run.maxfevals
        longest = state.run.popsize * longest_run(state.search.theta.dimension, state.run.popsize)
        leads = state.standing.lowest < state.standing.to_beat
        return longest if leads and state.run.spares_leaders else min(state.run.maxfevals, longest)

    def resume_from(
        self,
        state: RunState,
        runs: Iterable[tuple[Run, int]],
        endings: Iterable[Mapping[str, float]],
        best: Array,
        medians: Array,
    ) -> None:
        """Go on from a stored state, given the runs before and the best and median values of its run's generations, of
        which those of sweeps do not count.
        """
        self.finished, self.endings = FinishedRuns(runs), Endings(endings)
        is_search = medians != NO_MEDIAN
        best, medians = best[is_search], medians[is_search]
        if self.inequalities:
            best = np.where(np.isnan(best), np.inf, best)  # generations without a feasible point
        self._enter(state, best.tolist(), medians.tolist())

    def __repr__(self) -> str:
        """The state of the search in a few lines."""
        return self._summary().text()

    def _repr_html_(self) -> str:
        """The state of the search as HTML, for notebooks."""
        return self._summary().html()

    def _summary(self) -> Summary:
        facts = {
            "best_fun": f"{self.best_fun:.10g}" + (" (average of medians of recent generations)" if self.noise else ""),
            **self._points(),
            "spent": f"nfev {self.nfev}, nit {self.nit}, restarts {self.restarts}",
        }
        if self.constraints is not None:
            facts["maxcv"] = f"{self.maxcv:.3g}"
        if stopped := self.stop():
            facts["stop"] = ", ".join(stopped)
        title = f"Optimizer: {self.method.name}, {counted(self.best_x.size, 'variable')}, popsize {self.popsize}"
        return Summary(title, facts)

    def _points(self) -> dict[str, str]:
        """The best point, the mean and the width: by name if there is a space or an integer, else as arrays."""
        labels = self.start.labels
        if not labels.by_name:
            best, mean, width = short_array(self.best_x), short_array(self.mean), short_array(self.deviations)
        else:
            best, mean = (labels.point(x) if np.isfinite(x).all() else "none" for x in (self.best_x, self.mean))
            width = labels.spreads(deviations_of(self.theta, self.space), self.theta)
        return {"best_x": best, "mean": mean, "std": width}

    def __copy__(self) -> Optimizer:
        """A copy that does not share a generator: it would change the path of the other."""
        return copy.deepcopy(self)


def _positions(X: ArrayLike, asked: Array) -> NDArray[np.intp] | slice:
    """The row of X of each asked point; the rows of X must be the asked points, in any order."""
    told = plain_array("X", X)
    if told.shape != asked.shape:
        raise ValueError(f"`X` must be the points that `ask` returned, shape {asked.shape}, got shape {told.shape}.")
    if told.dtype.kind not in "fiub":
        raise TypeError(f"`X` must be the points that `ask` returned, got {short_repr(X)} (dtype {told.dtype}).")
    if np.array_equal(told, asked):
        return slice(None)
    rows: dict[bytes, list[int]] = {}
    for row, point in enumerate(told.astype(np.float64) + 0.0):  # + 0.0 turns −0.0 into 0.0
        rows.setdefault(point.tobytes(), []).append(row)
    positions = [matching.pop(0) if (matching := rows.get(point.tobytes())) else -1 for point in asked + 0.0]
    if missing := positions.count(-1):
        raise ValueError(
            f"`X` must be the points that `ask` returned: {missing} of {len(asked)} are missing, such as "
            f"{short_repr(asked[positions.index(-1)])}. Pass the value of a repaired point with the original point."
        )
    return np.array(positions)
