"""A thin object around method, state and generator for people who like `ask()` and `tell()`."""

from __future__ import annotations

import copy
import logging
from array import array
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array, read_only
from sublevel.engine.constants import longest_run
from sublevel.engine.families import Family, Sample
from sublevel.engine.method import Info, Method, State
from sublevel.engine.ordering import Ranking, ranking
from sublevel.run.initial import checked_beginning
from sublevel.run.restarts import Once, Run
from sublevel.run.search_space import Space
from sublevel.run.termination import SLOW, Endings, Tolerances, Watch
from sublevel.summaries import Summary, counted, short_array
from sublevel.validation import (
    as_flag,
    as_generator,
    as_method,
    as_popsize,
    as_restarts,
    as_tolerance,
    as_values,
    default_name,
    explain_keywords,
    plain_array,
    short_repr,
    validate_memory,
)

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Saved:
    """An optimizer between two generations, besides its configuration: what it takes to go on with the same bits."""

    state: State
    initial_deviations: Array  # (k,), of the run
    best_x: Array  # (d,)
    theta_of_best: Family | None  # where the run that found it ended; None if that is the run itself
    facts: Mapping[str, Any]  # numbers, text, lists and dicts of them: the generator's state, counts, the run and those before


class Optimizer:
    """Minimises by ask and tell. The arrays it shows are read-only.

    `ask` returns samples only: unlike `minimize` with its `evaluate_x0`, an Optimizer does not evaluate `x0`.

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
        x0: Any,
        sigma0: Any,
        *,
        method: str | Method = "cma",
        popsize: int | None = None,
        cov0: Any = None,
        bounds: Any = None,
        log_scaled: Any = False,
        restarts: Any = None,
        rng: Any = None,
        tolfun: float | None = None,
        tolx: float | None = None,
        noise_floor: bool = True,
        names: Sequence[str] | None = None,
    ) -> None:
        """N(x0, sigma0²·cov0) to begin with; `rng` is a seed, a Generator or None (SPEC 7). The rest is as for `minimize`."""
        self.method = as_method(method)
        self.rng = as_generator(rng)
        self.start = checked_beginning(self.method.family, x0, sigma0, cov0, bounds, log_scaled, names, self.rng)
        self.tolerances = Tolerances(as_tolerance("tolfun", tolfun), as_tolerance("tolx", tolx), as_flag("noise_floor", noise_floor))
        theta = self.start.theta(self.start.x0)
        size = as_popsize(self.method.popsize if popsize is None else popsize, theta.dimension)
        self.strategy, self._size = as_restarts(restarts), size
        self._forget_runs()
        self.nfev = self.nit = self.restarts = 0
        self.best_x = read_only(self.start.x0)
        self.best_fun = float("nan")
        self.best_run, self._left = 0, theta  # the run that found it, and where that ended
        self.endings = Endings()  # why earlier runs ended
        self._over: dict[str, float] = {}
        self._begin(self._next_run(None), theta, np.nan)

    def _forget_runs(self) -> None:
        """Begin anew with the restart strategy."""
        self._runs = self.strategy.runs(self._size, self.rng)
        self._spent = array("q")  # what the strategy was told: evaluations of each run that ended
        self._draws: dict[int, Any] = {}  # the generator's states before the runs for which it drew

    def _next_run(self, spent: int | None) -> Run:
        before, number = self.rng.bit_generator.state, len(self._spent) + (spent is not None)
        run = next(self._runs) if spent is None else self._runs.send(spent)
        if not _same(before, self.rng.bit_generator.state):
            self._draws[number] = before
        if spent is not None:
            self._spent.append(spent)
        return run

    def _begin(self, run: Run, theta: Family, to_beat: float) -> None:
        """Begin a run after others whose best value is `to_beat`. A start that was evaluated is not theirs, and no run depends on it."""
        self.run, self.popsize = run, run.popsize
        self.state = self.method.init(theta, run.popsize)
        self.watch = Watch(theta.deviations, run.popsize, to_beat, self.tolerances)
        self.last: Info | None = None
        self._run_began = self.nfev
        self._pending: Sample | None = None
        self._shown: Array | None = None
        self._deviations: Array | None = None

    @property
    def theta(self) -> Family:
        """The search distribution, in the space that is searched."""
        return self.state.theta

    @property
    def theta_of_best(self) -> Family:
        """The search distribution of the run that found the best point: as it is, or as it was when that run ended."""
        return self.state.theta if self.best_run == self.restarts else self._left

    def ending_of_best(self, reasons: Mapping[str, float]) -> Mapping[str, float]:
        """Why the run that found the best point ended, if these are the reasons of the last one; those if there is none."""
        return reasons if self.best_run == self.restarts or self.best_fun != self.best_fun else self.endings[self.best_run]

    @property
    def space(self) -> Space | None:
        """How a point of the searched space becomes the user's; None if they are the same."""
        return self.start.space

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the variables (d,): x[0], x[1] … if none were given."""
        return self.start.names or tuple(map(default_name, range(self.start.x0.size)))

    @property
    def mean(self) -> Array:
        """Mean of the search distribution (d,), as a point of the user's space."""
        return read_only(self.start.mean(self.state.theta))

    @property
    def cov(self) -> Array:
        """Covariance of the search distribution (d, d), proportional to the inverse Hessian once learned; 0 for fixed variables."""
        return self.start.cov(self.state.theta)

    @property
    def deviations(self) -> Array:
        """Standard deviation of each free variable (k,)."""
        if self._deviations is None:
            self._deviations = read_only(self.state.theta.deviations)
        return self._deviations

    @property
    def generation_best(self) -> float:
        """Best value of the last sample told; NaN if there is none."""
        return float("nan") if self.last is None else float(self.last.ranks.best)

    def ask(self) -> Array:
        """Points to evaluate (popsize, d), read-only; an earlier sample that was not told is forgotten."""
        validate_memory(self.popsize, self.theta.dimension)
        self._pending = sample = self.method.ask(self.state, self.rng, self.popsize)
        self._shown = read_only(self._points(sample.x))
        return self._shown

    def _points(self, searched: Array) -> Array:
        return searched if self.start.space is None else self.start.space.points(searched)

    def tell(self, X: Any, values: Any) -> None:
        """Values (popsize,) of the points that were asked, in any order: `X` says whose they are. After an error they can be told again."""
        sample, shown_points = self._pending, self._shown
        if sample is None or shown_points is None:
            raise RuntimeError("`tell` needs a sample that was asked for and not yet told: call `ask()` first, and `tell` once for each.")
        values = as_values(values, self.popsize)
        if X is not shown_points:
            values = values[_positions(X, shown_points)]
        state, info = self.method.tell(self.state, sample, values)
        self._see(state, info, values, sample.x, sample.squares)
        self._count(shown_points, info.ranks)

    def tell_elsewhere(self, state: State, info: Info, values: Array, points: Array, best_x: Array, squares: Array | None) -> None:
        """Step of a sample that was not asked here, with its values (popsize,), some of its search points (m, k) and the best x (d,).

        `squares` are ‖z‖² (popsize,) if they are known.
        """
        self._see(state, info, values, points, squares)
        self._count(best_x[None], Ranking(np.zeros(1, dtype=np.intp), None, info.ranks.best))
        self.nfev += values.size - 1

    def _see(self, state: State, info: Info, values: Array, points: Array, squares: Array | None) -> None:
        self.state, self.last = state, info
        self._pending = self._deviations = None
        if self.start.space is not None and (factors := self.start.space.squeeze(self.deviations)) is not None:
            self.state, self._deviations = state.rescale(factors), None
        self._over = {}
        self.nit += 1
        self.watch.see(info, values, points, squares)

    def note(self, points: Array, values: Array) -> None:
        """Count evaluations and keep the best point, without a step."""
        if values.size:
            self._count(points, ranking(values))

    def _count(self, points: Array, ranks: Ranking) -> None:
        self.nfev += ranks.order.size
        best = ranks.best
        if not self.best_fun <= best and best == best:  # the first value, or a better one; never NaN
            self.best_fun = float(best)
            self.best_x = read_only(points[ranks.order[0]].copy())
            self.best_run = self.restarts

    def stop(self) -> dict[str, float]:
        """Reasons to stop with the numbers they saw; empty means go on. With restarts, a run that ends makes way for the next one here."""
        if self._over or self._pending is not None or self.last is None:
            return self._over
        reasons = self.watch.reasons(self.state.theta, self.deviations, self._pace)
        spent = self.nfev - self._run_began
        if not reasons and spent >= self._allowance():
            reasons = {"run_budget": float(spent)}
        if reasons:
            try:
                run = self._next_run(spent)
            except StopIteration:
                self._over = reasons
            else:
                if self.best_run == self.restarts:
                    self._left = self.state.theta
                self.restarts += 1
                self.endings.append(reasons)
                LOGGER.info(
                    "restart %d with popsize %d: the run before ended by %s after %d evaluations, best value so far %.8g",
                    *(self.restarts, run.popsize, ", ".join(reasons), spent, self.best_fun),
                )
                to_beat = float(np.fmin(self.watch.to_beat, self.watch.lowest))
                self._begin(run, self.start.theta(self.start.point(self.rng), run.sigma_factor), to_beat)
        return self._over

    def _allowance(self) -> float:
        """Evaluations that the run may take: as the strategy says, and not too many if others follow, unless it goes slowly on purpose."""
        if isinstance(self.strategy, Once) or self._pace() < SLOW:
            return self.run.maxfevals
        longest = self.popsize * longest_run(self.state.theta.dimension, self.popsize)
        leads = self.watch.lowest < self.watch.to_beat
        return longest if leads and self.run.spares_leaders else min(self.run.maxfevals, longest)

    def _pace(self) -> float:
        """How fast the search goes, as a part of its usual speed."""
        return self.state.pace

    def saved(self, since: int = 0) -> Saved:
        """All there is to store of it between two generations; of the runs, those from number `since` on."""
        facts = {
            "nfev": self.nfev,
            "nit": self.nit,
            "restarts": self.restarts,
            "best_fun": self.best_fun,
            "best_run": self.best_run,
            "run": [self.run.popsize, float(self.run.sigma_factor), float(self.run.maxfevals), self.run.spares_leaders],
            "run_began": self._run_began,
            "sent": self._sent(since),
            "endings": [dict(ending) for ending in self.endings[max(since - 1, 0) :]],
            "over": dict(self._over),
            "watch": self.watch.saved,
            "rng": self.rng.bit_generator.state,
        }
        left = None if self.best_run == self.restarts else self._left
        return Saved(self.state, self.watch.initial_deviations, self.best_x, left, facts)

    def restore(self, saved: Saved, best: Array, medians: Array) -> None:
        """Go on from what an optimizer with this configuration saved, given the best and median values of its run's generations."""
        facts, run = saved.facts, Run(*saved.facts["run"])
        self.nfev, self.nit, self.restarts = (int(facts[name]) for name in ("nfev", "nit", "restarts"))
        self.best_x, self.best_fun, self.best_run = read_only(saved.best_x), float(facts["best_fun"]), int(facts["best_run"])
        self._left = saved.state.theta if saved.theta_of_best is None else saved.theta_of_best
        self.endings = Endings(facts["endings"])
        self._begin(run, saved.state.theta, np.nan)
        self._over, self._run_began = dict(facts["over"]), int(facts["run_began"])
        self.state = saved.state
        self.watch = Watch(saved.initial_deviations, run.popsize, tolerances=self.tolerances)
        self.watch.restore(facts["watch"], best, medians)
        self.rng.bit_generator.state = facts["rng"]

    def forget_convergence(self) -> None:
        """Go on with a run that ended by `tolfun`, `tolx` or `noise_floor`: these are not what they were."""
        if not {"tolfun", "tolx", "noise_floor"}.isdisjoint(self._over):
            self._over = {}

    def _sent(self, since: int = 0) -> list[list[Any]]:
        """What the restart strategy heard: a state of the generator if it drew from that, and the evaluations of the run before."""
        numbers = range(since, len(self._spent) + 1)
        return [[self._draws.get(number), self._spent[number - 1] if number else None] for number in numbers]

    def _hear_again(self, sent: Iterable[Any]) -> Run | None:
        """Bring the restart strategy to where it was: it hears again what it heard before, with the same randomness."""
        self._forget_runs()
        run = None
        for state, spent in sent:
            if state is not None:
                self.rng.bit_generator.state = state
            with suppress(StopIteration):
                run = self._next_run(spent)
        return run

    def replay(self, saved: Saved) -> None:
        """Bring the restart strategy to where it was when this was saved."""
        run = self._hear_again(saved.facts["sent"])
        if run != Run(*saved.facts["run"]):
            raise ValueError(f"`restarts` must be the strategy that the run began with: now it makes {run}, then {saved.facts['run']}.")

    def __repr__(self) -> str:
        """Where the search is, in a few lines."""
        return self._summary().text()

    def _repr_html_(self) -> str:
        """Where the search is, for notebooks."""
        return self._summary().html()

    def _summary(self) -> Summary:
        facts = {
            "best_fun": f"{self.best_fun:.10g}",
            "best_x": short_array(self.best_x),
            "mean": short_array(self.mean),
            "std": short_array(self.deviations),
            "spent": f"nfev {self.nfev}, nit {self.nit}, restarts {self.restarts}",
        }
        if self._over:
            facts["stop"] = ", ".join(self._over)
        title = f"Optimizer: {self.method.name}, {counted(self.best_x.size, 'variable')}, popsize {self.popsize}"
        return Summary(title, facts)

    def __copy__(self) -> Optimizer:
        """A copy that does not share a generator: it would change the path of the other."""
        return copy.deepcopy(self)

    def __getstate__(self) -> dict[str, Any]:
        """All but the runs to come: they are a generator of Python's, which cannot be pickled or copied."""
        return {name: part for name, part in vars(self).items() if name != "_runs"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """An optimizer that goes on as the pickled or copied one does, bit for bit."""
        vars(self).update(state)
        read_only(self.best_x)
        now = self.rng.bit_generator.state
        self._hear_again(self._sent())
        self.rng.bit_generator.state = now


def _same(a: Any, b: Any) -> bool:
    """Whether two states of a generator are equal."""
    if isinstance(a, dict):
        return all(_same(part, b[key]) for key, part in a.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
    return bool(np.all(a == b))


def _positions(X: Any, asked: Array) -> NDArray[np.intp] | slice:
    """For each asked point the row of X it is told in; the rows of X must be the asked ones, in any order."""
    told = plain_array("X", X)
    if told.shape != asked.shape:
        raise ValueError(f"`X` must be the points that were asked, shape {asked.shape}, got shape {told.shape}.")
    if told.dtype.kind not in "fiub":
        raise TypeError(f"`X` must be the points that were asked, got {short_repr(X)} (dtype {told.dtype}).")
    if np.array_equal(told, asked):
        return slice(None)
    rows: dict[bytes, list[int]] = {}
    for row, point in enumerate(told.astype(np.float64) + 0.0):  # + 0.0 turns −0.0 into 0.0
        rows.setdefault(point.tobytes(), []).append(row)
    positions = [matching.pop(0) if (matching := rows.get(point.tobytes())) else -1 for point in asked + 0.0]
    if missing := positions.count(-1):
        raise ValueError(
            f"`X` must be the points that were asked: {missing} of {len(asked)} are missing, "
            f"such as {short_repr(asked[positions.index(-1)])}. Tell the value of a repaired point under the point that was asked."
        )
    return np.array(positions)
