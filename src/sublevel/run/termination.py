"""When it is enough, and why."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, overload

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.engine.method import Info, Outcome
from sublevel.engine.ordering import Ranking
from sublevel.run.noise_floor import INFORMATIVE, NARROW, UNINFORMATIVE, is_falling, rank_scores, rank_signal, window_length

TOLX = 1e-11
"""A run has converged when every standard deviation is this fraction of its initial one."""
EFFECT = 0.2
"""A step of this many standard deviations changes a coordinate unless floats are too coarse: pycma's `noeffectcoord`."""

STANDSTILLS = {
    Outcome.FLAT: "flat",
    Outcome.FAILED: "all_failed",
    Outcome.NO_SELECTION: "unselective",
    Outcome.REFUSED: "refused",
}
"""Why a generation took no step."""

PATIENCE = {"flat": 2, "refused": 2, "all_failed": 10, "unselective": 10, "one_point": 10}
"""Generations in a row without a step, for the same reason, that end a run: more where a fresh sample may help."""

MESSAGES = {
    "ftarget": "the target was reached: fun = {value:.6g}",
    "tolx": "converged: every standard deviation fell to `tolx`, or to a negligible part: to {value:.3g} of its initial value or below",
    "no_effect": "converged to the precision of floats: a step, along the shortest axis at least, does not change the mean any more",
    "one_point": "converged: all points of a sample were the same in {value:.0f} generations in a row",
    "tolfun": "converged: recent values differ by {value:.3g} at most, which is within `tolfun` or rounding",
    "stagnation": "nothing got better over {value:.0f} generations; the values may be noisy or the minimum may not be smooth",
    "ill_conditioned": "the covariance has a condition number of {value:.3g}; rescale the variables, or a variable may have no influence",
    "diverged": "a standard deviation grew by a factor of {value:.3g}; the objective may have no minimum, or `sigma0` is far too small",
    "run_budget": "the run used the {value:.0f} evaluations that the restart strategy gave it",
    "unbounded": "the objective returned −inf, and no value is better",
    "maxfevals": "the budget of {value:.0f} evaluations is spent; give more with `maxfevals`",
    "maxiter": "the budget of {value:.0f} iterations is spent; give more with `maxiter`",
    "callback": "the callback asked to stop after {value:.0f} iterations",
    "flat": "all values were equal in {value:.0f} generations in a row; if the start lies on a plateau, try a larger `sigma0`",
    "too_narrow": "a step changes no coordinate of the mean, and the standard deviations never shrank; give a larger `sigma0`",
    "all_failed": "no value was usable in {value:.0f} generations in a row; check the objective near `x0`, or try a smaller `sigma0`",
    "unselective": "nothing was selected in {value:.0f} generations in a row, for a small sample or many ties; give a larger `popsize`",
    "refused": "a step would leave the range of floats or make C indefinite, {value:.0f} generations in a row; f may be unbounded",
    "interrupted": "interrupted in iteration {value:.0f}; this is what was found until then",
    "overtaken": "the run came within {value:.2g} of the best value of an earlier one and comes no nearer",
    "maxtime": "the time limit of {value:.6g} seconds is reached; give more with `maxtime`",
    "noise_floor": "converged to the noise of the objective: over {value:.0f} generations the values neither fell nor depended on the "
    "distance from the mean; make the objective more precise (a tighter solver tolerance, more averaging), or go on with noise_floor=False",
}
"""What each reason says, with the number it saw."""

NAMES = tuple(MESSAGES)
STATUS = {name: code for code, name in enumerate(NAMES)}
SUCCESSES = frozenset({"ftarget", "tolx", "no_effect", "one_point", "tolfun", "noise_floor"})
"""Endings of a run that has found what it can find."""


STAGNATION = (0.2, 20_000)
"""Stagnation looks at this part of a run's generations, and at no more than this many (Hansen, arXiv:1604.00772, appendix B.3).

How many it takes at least, and in which generation it may be found first, is as in the package `cma` 4: with a large sample on a rugged
function a search stands still for hundreds of generations at the beginning, before it finds its way down.
"""
SLOW = 0.5
"""A search whose adapted rates are below this part of the usual ones is not said to stagnate."""
CONDITION = 1e18
"""Cond(C) beyond which floats no longer tell the axes apart."""
GROWTH = 1e20
"""A run diverges when a standard deviation has grown by this factor."""
HOPE = 1e-2
"""A run is given up for the next one if its values differ by less than this part of what it lacks to the best value of an earlier run."""
RESOLUTION = 256 * float(np.finfo(np.float64).eps)
"""Values that differ by less than this part of their size are one value: sums and functions of functions round more than once."""


class Tolerances(NamedTuple):
    """What the user calls converged, besides what every run does; 0 and False are off."""

    fun: float = 0.0  # spread of the values of a sample, and of the best values of recent generations
    x: float = 0.0  # every standard deviation, of ln x where a variable is log-scaled
    noise_floor: bool = True  # whether a run ends where the order of the values is noise


class Endings(Sequence[Mapping[str, float]]):
    """Why runs ended: one reason each with its number, in nine bytes, because there may be many runs."""

    def __init__(self, endings: Iterable[Mapping[str, float]] = ()) -> None:
        self._statuses, self._numbers = array("B"), array("d")
        for reasons in endings:
            self.append(reasons)

    def append(self, reasons: Mapping[str, float]) -> None:
        """One more run ended."""
        ((name, number),) = reasons.items()
        self._statuses.append(STATUS[name])
        self._numbers.append(number)

    def __len__(self) -> int:
        """Runs that ended."""
        return len(self._statuses)

    @overload
    def __getitem__(self, which: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, which: slice) -> list[dict[str, float]]: ...
    def __getitem__(self, which: int | slice) -> dict[str, float] | list[dict[str, float]]:
        """Why a run ended, or some of them."""
        if isinstance(which, slice):
            return [self[index] for index in range(*which.indices(len(self)))]
        return {NAMES[self._statuses[which]]: self._numbers[which]}


class Watch:
    """What the reasons to end a run depend on. Without tolerances, none of them changes when f is scaled, or x scaled or shifted."""

    def __init__(
        self,
        initial_deviations: Array,
        popsize: int,
        to_beat: float = np.nan,
        tolerances: Tolerances = Tolerances(),  # noqa: B008
    ) -> None:
        """A run that begins with these standard deviations (d,), after others whose best value is `to_beat`, NaN if there are none."""
        self.initial_deviations = initial_deviations
        self.to_beat = to_beat
        self.tolerances = tolerances
        self.recent = 10 + -(-30 * initial_deviations.size // popsize)
        d = initial_deviations.size
        self.patience = 100 + 100 * d**1.5 / popsize
        self.earliest = max(500, d * (5 + 100 / popsize))
        self.seen = 0  # generations
        self.best = array("d")  # of each generation, the last `kept` at least
        self.medians = array("d")
        self.lowest = self.highest = float("nan")  # of the best values of all generations
        self.signal = 1.0  # mean of `rank_signal` over about as many generations as `window` has
        self.was_informed = False  # whether the values were informative when the search was narrow
        self._scores = rank_scores(d, popsize)
        self.kept = max(STAGNATION[1], self.recent, window_length(d, popsize, STAGNATION[1]))
        self._unread: list[tuple[Ranking, Array, Array | None]] = []
        self._standstill: str | None = None
        self._standing_for = 0

    @property
    def saved(self) -> dict[str, Any]:
        """What it knows besides the values of recent generations, in plain numbers."""
        self._read()
        return {
            "seen": self.seen,
            "lowest": self.lowest,
            "highest": self.highest,
            "standstill": self._standstill,
            "standing_for": self._standing_for,
            "to_beat": self.to_beat,
            "signal": self.signal,
            "was_informed": self.was_informed,
        }

    def restore(self, saved: Mapping[str, Any], best: Array, medians: Array) -> None:
        """Go on from what was saved, and from the best and median values of the generations before, the last `kept` of them at least."""
        self.seen, self.lowest, self.highest = int(saved["seen"]), float(saved["lowest"]), float(saved["highest"])
        self._standstill, self._standing_for = saved["standstill"], int(saved["standing_for"])
        self.to_beat, self.signal, self.was_informed = float(saved["to_beat"]), float(saved["signal"]), bool(saved["was_informed"])
        self.best, self.medians = array("d", best[-self.kept :].tolist()), array("d", medians[-self.kept :].tolist())

    def see(self, info: Info, values: Array, points: Array, squares: Array | None) -> None:
        """Take note of a generation's values (n,), search points (n, d) and ‖z‖² (n,); without these no noise floor is found."""
        if info.outcome or self._standstill:
            standstill = _standstill(info.outcome, points) if info.outcome else None
            self._standing_for = self._standing_for + 1 if standstill == self._standstill else 1
            self._standstill = standstill
        self._unread.append((info.ranks, values, squares))
        if len(self._unread) > 100:  # nobody asks for reasons
            self._read()

    def reasons(self, theta: Family, deviations: Array, pace: Callable[[], float]) -> dict[str, float]:
        """Reasons to end the run with the numbers they saw; empty means go on.

        At a slow `pace` there is neither stagnation nor a noise floor.
        """
        spread = self._read()
        is_narrow = self._is_narrow(deviations)
        self.was_informed |= is_narrow and self.signal >= INFORMATIVE
        reasons = converged(theta.mean, deviations, self.initial_deviations, self.tolerances.x)
        if not reasons and self._standstill is not None and self._standing_for >= PATIENCE[self._standstill]:
            reasons = {self._standstill: float(self._standing_for)}
            if self._standstill == "flat" and self._came_down(deviations):
                reasons = {"tolfun": 0.0}
        if not reasons:
            reasons = self._narrow_in_values(spread)
        if not reasons and is_narrow and self.was_informed and self.signal < UNINFORMATIVE and pace() >= SLOW:
            reasons = self._at_noise_floor(theta)
        if not reasons and self.seen % 10 == 0:
            reasons = self._stagnant(pace()) or self._degenerate(theta, deviations)
        return reasons

    def _read(self) -> float:
        """Enter what was seen into the histories; the spread of the last sample's values."""
        spread = np.inf
        for ranks, values, squares in self._unread:
            order, best = ranks.order, float(ranks.best)
            self.seen += 1
            self.best.append(best)
            self.medians.append(float(values[order[order.size // 2]]))
            if best == best:
                self.lowest = best if not best >= self.lowest else self.lowest
                self.highest = best if not best <= self.highest else self.highest
            spread = float(values[order[-1]]) - best if best > -np.inf else np.inf
            if squares is not None:
                self.signal += (rank_signal(self._scores, ranks, squares) - self.signal) * 2 / self._window
        self._unread.clear()
        if len(self.best) > 2 * self.kept:  # a run may be long, and memory is not
            del self.best[: -self.kept], self.medians[: -self.kept]
        return spread

    def _came_down(self, deviations: Array) -> bool:
        """Whether the equal values of a sample are the best ones of a run that has narrowed: it has converged, and began on no plateau."""
        low, high, best = self.lowest, self.highest, self.best[-1]
        is_best = best <= low or best - low <= RESOLUTION * abs(low) < np.inf
        return bool(low < high and is_best and np.all(deviations < self.initial_deviations))

    def _narrow_in_values(self, spread: float) -> dict[str, float]:
        """The values of the sample and the best ones of recent generations are equal within `tolfun` or rounding, or too near to hope.

        Too near is what differs by a hundredth of the distance to an earlier run's best value: at this pace it would take a hundred times
        as long to get there.
        """
        best = self.best[-1]
        lacks = best - self.to_beat
        equal, hopeless = max(self.tolerances.fun, RESOLUTION * abs(best)), HOPE * lacks
        if self.seen < self.recent or not (spread <= equal or spread <= hopeless):
            return {}
        recent = self.best[-self.recent :]
        change = max(recent) - min(recent)
        if spread <= equal and change <= equal:
            return {"tolfun": change}
        return {"overtaken": lacks} if spread <= hopeless and change <= hopeless < np.inf else {}

    @property
    def _window(self) -> int:
        """Generations from which the noise floor is judged."""
        return window_length(self.initial_deviations.size, self._scores.size, self.seen)

    def _is_narrow(self, deviations: Array) -> bool:
        """Whether the search is so narrow that it may be at the noise of f."""
        initial = self.initial_deviations
        return bool(deviations[0] <= NARROW * initial[0] and np.all(deviations <= NARROW * initial))

    def _at_noise_floor(self, theta: Family) -> dict[str, float]:
        """The values do not fall either, after their order has become random in a search that is narrow. Only their order matters."""
        length = self._window
        if self.seen < length or not theta.continuous or not self.tolerances.noise_floor:
            return {}
        best, medians = (np.array(history[-length:]) for history in (self.best, self.medians))
        return {} if is_falling(best, medians, self.lowest) else {"noise_floor": float(length)}

    def _stagnant(self, pace: float) -> dict[str, float]:
        """Neither the best nor the median values got better over the last fifth of the run: their order says so, not their size.

        Nor was the best of all found in its second half. A search at a slow pace goes through noise or over hills, and is left to it.
        """
        length = int(min(max(STAGNATION[0] * self.seen, self.patience), STAGNATION[1]))
        if pace < SLOW or self.seen < max(length, self.earliest):
            return {}
        if np.nanmin(self.best[-(length // 2) :], initial=np.inf) <= self.lowest:
            return {}
        part = max(int(0.3 * length), 1)
        for history in (self.best, self.medians):
            window = history[-length:]
            if np.median(window[-part:]) < np.median(window[:part]):
                return {}
        return {"stagnation": float(length)}

    def _degenerate(self, theta: Family, deviations: Array) -> dict[str, float]:
        growth = float(np.max(deviations / self.initial_deviations))
        if growth > GROWTH:
            return {"diverged": growth}
        if self.seen % (10 * theta.dimension) == 0 and (axis := theta.shortest_axis()) is not None:
            if axis.condition > CONDITION:
                return {"ill_conditioned": axis.condition}
            if np.array_equal(theta.mean + EFFECT * axis.length * axis.direction, theta.mean):
                return {"no_effect": float(np.max(deviations / self.initial_deviations))}
        return {}


def _standstill(outcome: Any, points: Array) -> str:
    """Why a sample (n, d) led to no step. Equal values say nothing of f where all points are equal too."""
    if outcome == Outcome.FLAT and (points == points[0]).all():
        return "one_point"
    return STANDSTILLS[outcome]


def converged(mean: Array, deviations: Array, initial_deviations: Array, tolx: float = 0.0) -> dict[str, float]:
    """Reasons from the width of the distribution, relative to where it began and to the spacing of floats, and by `tolx`."""
    if deviations[0] <= tolx and np.all(deviations <= tolx):
        return {"tolx": float(np.max(deviations / initial_deviations))}
    if deviations[0] > TOLX * initial_deviations[0] and mean[0] + EFFECT * deviations[0] != mean[0]:
        return {}  # one is enough, and there is almost always the first
    wide = deviations > TOLX * initial_deviations
    if np.count_nonzero(wide & (mean + EFFECT * deviations != mean)):
        return {}
    width = float(np.max(deviations / initial_deviations))
    return {("too_narrow" if width >= 1 else "no_effect") if wide.any() else "tolx": width}


def message(reasons: Mapping[str, float]) -> str:
    """What the reasons say, in sentences."""
    return "; ".join(MESSAGES[name].format(value=value) for name, value in reasons.items()) or "the run goes on"
