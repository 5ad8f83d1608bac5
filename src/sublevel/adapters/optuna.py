"""A sampler for Optuna: `Optimizer` draws the parameters of trials, and finished trials form generations.

The state of the search is not stored. It is a function of the trials that have ended, in the order in which they ended:
as many as a generation has make a step. A trial that ends late, because others ran in parallel, is part of a later
generation, at its place relative to the distribution of that generation.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, cast

import numpy as np

from sublevel.adapters.extras import missing_extra
from sublevel.engine.arrays import Array
from sublevel.run.optimizer import Optimizer
from sublevel.run.parameters import LARGEST_INTEGER, Choice, Integer, Parameter, Real, Space, log_ratio
from sublevel.run.search_space import SearchSpace
from sublevel.validation import as_method

try:
    from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.samplers import BaseSampler, TPESampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ModuleNotFoundError as error:
    raise missing_extra("SublevelSampler", "optuna", error) from error

LOGGER = logging.getLogger(__name__)
POINT, SEED, CONSTRAINTS = "sublevel:point", "sublevel:seed", "constraints"
"""System attributes of trials and studies; the last one is Optuna's."""
ENDED = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.FAIL)
SIGMA0 = 1 / 6
SAME = 1e-9
"""Relative difference of two values of a parameter that are the same."""


class SublevelSampler(BaseSampler):
    """Sampler of `sublevel` for ``optuna.create_study(sampler=...)``.

    Parameters
    ----------
    start : mapping, optional
        Values of parameters for the first trial, where the search begins; other parameters start at the centre of
        their range, or with their first choice.
    sigma0 : float, optional
        Initial standard deviation, as a fraction of the range of each parameter; a sixth by default.
    popsize : int, optional
        Number of trials per generation; 4 + ⌊1.5 ln d⌋ by default, fewer than for `sublevel.minimize`, because studies
        have few trials.
    method : str or Method, optional
        As for `sublevel.minimize`; "cma" by default.
    restarts : str, int or strategy, optional
        As for `sublevel.minimize`, "bipop" by default: a search that has converged starts again elsewhere.
    constraints_func : callable, optional
        Function of a `FrozenTrial` that returns numbers, all of which are at most 0 if the trial is feasible, as for
        Optuna's samplers. Not needed if the objective calls `trial.set_constraint`.
    independent_sampler : BaseSampler, optional
        Sampler of parameters that are not suggested in every trial; `TPESampler` by default.
    seed : int, optional
        Seed. By default one is drawn for each study and stored with it.

    Notes
    -----
    Every finished trial is used, including trials that end out of order (`n_jobs`), fail (ranked last), are pruned
    (ranked no better than the completed trials of their generation), were enqueued, or come from another sampler. Only
    failed trials that did not suggest all parameters are ignored.

    A study in a storage can be continued by another process, or by several at the same time.

    The search covers the parameters that all trials have in common. Others are drawn by `independent_sampler`, which is
    logged once for each of them.

    Examples
    --------
    >>> import optuna
    >>> from sublevel.adapters.optuna import SublevelSampler
    >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
    >>> study = optuna.create_study(sampler=SublevelSampler(seed=1))
    >>> study.optimize(lambda trial: (trial.suggest_float("x", -5, 5) - 2) ** 2, n_trials=60)
    >>> abs(study.best_params["x"] - 2) < 0.1
    True
    """

    def __init__(
        self,
        *,
        start: Mapping[str, Any] | None = None,
        sigma0: float = SIGMA0,
        popsize: int | None = None,
        method: Any = "cma",
        restarts: Any = "bipop",
        constraints_func: Callable[[FrozenTrial], Sequence[float]] | None = None,
        independent_sampler: BaseSampler | None = None,
        seed: int | None = None,
    ) -> None:
        if not 0 < sigma0 <= 1:
            raise ValueError(
                f"`sigma0` must be in (0, 1], as a fraction of the range of each parameter, got {sigma0!r}."
            )
        if any(transform.adds_points for transform in as_method(method).transforms):
            raise ValueError(
                "`method` must draw its points independently, unlike step_size='tpa'. Use another step-size rule."
            )
        self.start = dict(start or {})
        self.settings = Settings(sigma0, popsize, method, restarts)
        self.constraints_func = constraints_func
        self.independent_sampler = TPESampler(seed=seed) if independent_sampler is None else independent_sampler
        self.seed = seed
        self._restore()

    def _restore(self) -> None:
        """Make the parts that are neither copied nor stored."""
        self._lock = threading.Lock()
        self._common: dict[str, IntersectionSearchSpace] = {}  # by study
        self._search: Search | None = None
        self._logged: set[str] = set()

    def __getstate__(self) -> dict[str, Any]:
        """The arguments."""
        return {name: value for name, value in vars(self).items() if not name.startswith("_")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """A sampler with the same arguments."""
        vars(self).update(state)
        self._restore()

    def reseed_rng(self) -> None:
        """Reseed the independent sampler; the numbers of the search depend on the study's seed and the trial's number
        alone.
        """
        self.independent_sampler.reseed_rng()

    def infer_relative_search_space(self, study: Study, trial: FrozenTrial) -> dict[str, BaseDistribution]:
        """The parameters that all trials have in common, without those of one value."""
        if len(study.directions) > 1:
            raise ValueError(f"SublevelSampler supports a single objective, got a study with {len(study.directions)}.")
        with self._lock:
            known = self._common.setdefault(study.study_name, IntersectionSearchSpace(include_pruned=True))
            common = known.calculate(study)
        return {name: distribution for name, distribution in common.items() if not distribution.single()}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        """Parameters that are drawn from the distribution of the current generation."""
        if not search_space:
            return {}
        ended = study.get_trials(deepcopy=False, states=ENDED)
        with self._lock:
            seed = self._seed_of(study)
            search = self._search_of(study, search_space, ended, seed)
            search.add(ended)
            values, point = search.draw(np.random.default_rng([seed, 1, trial.number]))
        set_trial_attribute(study, trial, POINT, point)
        return values

    def _search_of(
        self, study: Study, search_space: dict[str, BaseDistribution], ended: Sequence[FrozenTrial], seed: int
    ) -> Search:
        """The search of a study, begun anew if its parameters or the trials before have changed."""
        sign = -1.0 if study.direction == StudyDirection.MAXIMIZE else 1.0
        names = sorted({name for trial in ended for name in constraints_of(trial)})
        key = (study.study_name, sign, tuple(names), tuple(search_space.items()))
        if self._search is None or self._search.key != key or not self._search.began_with(ended):
            variables = [
                Variable(name, distribution, self.start.get(name)) for name, distribution in search_space.items()
            ]
            optimizer = self.settings.optimizer(variables, len(names), np.random.default_rng([seed, 0]))
            self._search = Search(key, sign, tuple(names), variables, optimizer)
        return self._search

    def _seed_of(self, study: Study) -> int:
        """The seed of a study: the first that was given or drawn for it."""
        storage, number = storage_of(study)
        if SEED not in storage.get_study_system_attrs(number):
            seed = np.random.SeedSequence().entropy if self.seed is None else self.seed
            storage.set_study_system_attr(number, SEED, int(cast(int, seed)) % 2**62)
        return storage.get_study_system_attrs(number)[SEED]

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        """A value of a parameter that is not searched: the start in the first trial, then by another sampler."""
        if trial.number == 0:
            variable = Variable(param_name, param_distribution, self.start.get(param_name))
            return variable.value(variable.first)
        if param_name not in self._logged and _follows_another(study, trial):
            self._logged.add(param_name)
            LOGGER.info(
                "parameter %r is not suggested in every trial with the same range; %s samples it independently",
                *(param_name, type(self.independent_sampler).__name__),
            )
        return self.independent_sampler.sample_independent(study, trial, param_name, param_distribution)

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        """As of the independent sampler."""
        self.independent_sampler.before_trial(study, trial)

    def after_trial(self, study: Study, trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> None:
        """Store the values of `constraints_func`."""
        if self.constraints_func is not None and state in (TrialState.COMPLETE, TrialState.PRUNED):
            numbers = [float(number) for number in self.constraints_func(trial)]
            set_trial_attribute(study, trial, CONSTRAINTS, numbers)
        self.independent_sampler.after_trial(study, trial, state, values)


def _follows_another(study: Study, trial: FrozenTrial) -> bool:
    """Whether the parameters of a study were known when a trial began."""
    known = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE, TrialState.PRUNED))
    began = trial.datetime_start or datetime.max
    return any((other.datetime_complete or datetime.max) <= began for other in known)


def storage_of(study: Study) -> tuple[Any, int]:
    """The storage of a study and the study's number in it. Optuna has no public name for what samplers store."""
    private = cast(Any, study)
    return private._storage, private._study_id


def set_trial_attribute(study: Study, trial: FrozenTrial, name: str, value: object) -> None:
    """Store a system attribute of a trial that is not finished."""
    storage_of(study)[0].set_trial_system_attr(cast(Any, trial)._trial_id, name, value)


def constraints_of(trial: FrozenTrial) -> dict[str, float]:
    """Constraint values of a trial by name: set by name since Optuna 5, as a list before."""
    if hasattr(trial, "constraints"):
        return cast("dict[str, float]", cast(Any, trial).constraints)
    return {str(i): value for i, value in enumerate(trial.system_attrs.get(CONSTRAINTS) or ())}


def small_popsize(d: int) -> int:
    """Trials per generation for d parameters: with 200 trials, the usual 4 + ⌊3 ln d⌋ leave too few generations."""
    return 4 + int(1.5 * math.log(d))


@dataclass(frozen=True, slots=True)
class Settings:
    """Arguments of a sampler that are those of its optimizer."""

    sigma0: float
    popsize: int | None
    method: Any
    restarts: Any

    def optimizer(self, variables: Sequence[Variable], constraints: int, rng: np.random.Generator) -> Optimizer:
        """The optimizer of some variables and a number of constraints."""
        parameters = {str(i): variable.parameter(self.sigma0) for i, variable in enumerate(variables)}
        return Optimizer(
            Space(parameters),
            popsize=small_popsize(len(variables)) if self.popsize is None else self.popsize,
            method=self.method,
            restarts=self.restarts,
            rng=rng,
            constraints=constraints or None,
        )


@dataclass(frozen=True, slots=True)
class Variable:
    """A parameter of a study, and its coordinate x: steps are counted, and choices numbered."""

    name: str
    distribution: BaseDistribution
    start: Any = None

    @property
    def _steps(self) -> tuple[float, float] | None:
        """Length and number of the steps of a distribution that has them and no log scale."""
        given = self.distribution
        if not isinstance(given, FloatDistribution | IntDistribution) or given.step is None or given.log:
            return None
        return given.step, round((given.high - given.low) / given.step)

    @property
    def _ends(self) -> tuple[float, float, bool]:
        """The smallest and the largest coordinate, and whether it is log-scaled."""
        given, steps = self.distribution, self._steps
        if isinstance(given, CategoricalDistribution):
            return 0.0, len(given.choices) - 1.0, False
        if steps is not None:
            return 0.0, steps[1], False
        number = cast("FloatDistribution | IntDistribution", given)
        return number.low, number.high, number.log

    @property
    def _is_whole(self) -> bool:
        """Whether the coordinates are integers that floats represent."""
        is_real = isinstance(self.distribution, FloatDistribution) and self.distribution.step is None
        return not is_real and self._ends[1] <= LARGEST_INTEGER

    def parameter(self, sigma0: float) -> Parameter:
        """The coordinate as a parameter of a `Space`."""
        low, high, log = self._ends
        if isinstance(self.distribution, CategoricalDistribution):
            return Choice(*range(len(self.distribution.choices)), start=round(self.first))
        half = 0.5 if self._is_whole else 0.0
        span = log_ratio(high + half, low - half) if log else high - low + 2 * half
        kind = Integer if self._is_whole else Real
        return kind(low, high, log=log, scale=sigma0 * span, start=self.first)

    @property
    def first(self) -> float:
        """The coordinate of the start."""
        low, high, log = self._ends
        if self.start is not None:
            return self.coordinate(self.start)
        if isinstance(self.distribution, CategoricalDistribution):
            return 0.0
        center = math.sqrt(low) * math.sqrt(high) if log else low + 0.5 * (high - low)
        return min(max(math.floor(center + 0.5) if self._is_whole else center, low), high)

    def coordinate(self, value: Any) -> float:
        """The coordinate of a value, within the range."""
        low, high, _ = self._ends
        x, steps = float(self.distribution.to_internal_repr(value)), self._steps
        if steps is not None:
            x = (x - cast("FloatDistribution | IntDistribution", self.distribution).low) / steps[0]
        return min(max(round(x) if self._is_whole else x, low), high)

    def value(self, x: float) -> Any:
        """The value of a coordinate."""
        given, steps = self.distribution, self._steps
        if isinstance(given, CategoricalDistribution):
            return given.choices[round(x)]
        if isinstance(given, IntDistribution):
            return round(x) if steps is None else given.low + round(x) * int(steps[0])
        low, high = cast(FloatDistribution, given).low, cast(FloatDistribution, given).high
        return min(max(x if steps is None else low + round(x) * steps[0], low), high)


@dataclass
class Search:
    """The search of a study, as far as trials have ended."""

    key: tuple[object, ...]
    sign: float  # −1 if the study maximises
    constraints: tuple[str, ...]
    variables: list[Variable]
    optimizer: Optimizer
    told: list[int] = field(default_factory=list[int])  # numbers of the trials of all generations so far

    @property
    def space(self) -> SearchSpace:
        """The space of the optimizer."""
        return cast(SearchSpace, self.optimizer.space)

    def began_with(self, ended: Sequence[FrozenTrial]) -> bool:
        """Whether the trials of the generations so far are the first of those that have ended."""
        return self.told == [trial.number for trial in self._usable(ended)[: len(self.told)]]

    def _usable(self, ended: Sequence[FrozenTrial]) -> list[FrozenTrial]:
        """The trials that have values of all variables, in the order of their ends."""
        names = [variable.name for variable in self.variables]
        usable = [trial for trial in ended if all(name in trial.params for name in names)]
        return sorted(usable, key=lambda trial: (trial.datetime_complete or datetime.min, trial.number))

    def add(self, ended: Sequence[FrozenTrial]) -> None:
        """Make all generations that trials have ended for."""
        waiting = self._usable(ended)[len(self.told) :]
        while len(waiting) >= (size := self.optimizer.popsize):
            self._tell(waiting[:size])
            waiting = waiting[size:]

    def _tell(self, trials: Sequence[FrozenTrial]) -> None:
        asked = self.optimizer.take_sample(np.array([self._point(trial) for trial in trials]))
        g = [[constraints_of(trial).get(name, np.nan) for name in self.constraints] for trial in trials]
        self.optimizer.tell(asked, self._values(trials), np.array(g) if self.constraints else None)
        self.optimizer.restart()
        self.told += [trial.number for trial in trials]

    def _values(self, trials: Sequence[FrozenTrial]) -> Array:
        """Values to minimise (n,): NaN for failed trials, and for pruned ones at least the worst of the others."""
        pruned = np.array([trial.state == TrialState.PRUNED for trial in trials])
        values = self.sign * np.array([last_value(trial) for trial in trials])
        finite = values[~pruned & np.isfinite(values)]
        return np.where(pruned, np.maximum(values, np.max(finite, initial=-np.inf)), values)

    def _point(self, trial: FrozenTrial) -> Array:
        """The search point (k + m,) of a trial: where it was drawn, or if it was not drawn there, its parameters'."""
        x = np.array([variable.coordinate(trial.params[variable.name]) for variable in self.variables])
        free, choices = np.flatnonzero(self.space.free), self.space.choices
        own = np.concatenate([self.space.searched(x), x[choices]])
        stored = trial.system_attrs.get(POINT, {})
        drawn = own.copy()
        drawn[: free.size] = [stored.get(self.variables[i].name, u) for i, u in zip(free, own, strict=False)]
        is_same = np.isclose(self.space.points(drawn), x, rtol=SAME, atol=0.0)[free]
        own[: free.size] = np.where(is_same, drawn[: free.size], own[: free.size])
        return own

    def draw(self, rng: np.random.Generator) -> tuple[dict[str, Any], dict[str, float]]:
        """Values of the variables, and the search point by name, without choices."""
        point = self.optimizer.theta.sample(rng, 1).x[0]
        x = self.space.points(point).tolist()
        values = {variable.name: variable.value(c) for variable, c in zip(self.variables, x, strict=True)}
        free = np.flatnonzero(self.space.free)
        return values, {self.variables[i].name: u for i, u in zip(free, point.tolist(), strict=False)}


def last_value(trial: FrozenTrial) -> float:
    """The value of a trial: of a pruned one the last that it reported, of a failed one NaN."""
    if trial.state == TrialState.PRUNED:
        reported = trial.intermediate_values
        return reported[max(reported)] if reported else math.nan
    return math.nan if trial.value is None or trial.state == TrialState.FAIL else trial.value
