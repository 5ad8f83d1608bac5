"""Whole runs of scenarios, and what must hold of each of them.

`check(scenario, folder)` makes the run of a scenario, makes it again in other ways, and raises `WrongRun` if anything
is not as promised. It returns the sentence with which the library refused the scenario, or None.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import shutil
import signal
import threading
import traceback
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cache
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np

import sublevel as sl
from helpers.scenarios import Problem, Stumble, draw, run_options, search_options, start_of
from sublevel.cli.run_status import read_status
from sublevel.store import recorder
from sublevel.validation import default_method

TOLERANCE = 1e-6
"""Largest violation of a feasible result, the default of `constraint_tol`."""


class WrongRun(AssertionError):
    """A run was not as promised."""


class Killed(BaseException):
    """Takes the place of a signal."""


# Runs


class Objective:
    """The objective of a scenario, which notes every call, and those that may not be made."""

    def __init__(self, problem, before=None):
        self.problem, self.before = problem, before
        self.points, self.outside, self._lock = [], [], threading.Lock()

    def __call__(self, given):
        points, _ = self.problem.points(given)
        self.outside.extend(x.copy() for x in points if not self.problem.keeps(x))  # an error might count as NaN
        if self.before is not None:
            self.before(len(self.points))
        with self._lock:
            self.points.extend(points.copy())
        return self.problem(given)


class Played(NamedTuple):
    """A run that ended, by an exception of the objective if it `stumbled`."""

    result: sl.Result
    points: list  # every point of a call, in this order
    stumbled: bool


def played(run, objective):
    """The run of a function without arguments that calls the objective."""
    try:
        ended = Played(run(), objective.points, False)
    except Stumble as error:
        ended = Played(error.sublevel_result, objective.points, True)
    check_inside(objective)
    return ended


def check_inside(objective):
    """All points were in the space and satisfied the constraints that every evaluated point satisfies."""
    assert not objective.outside, (
        f"the objective was called {len(objective.outside)} times outside: {objective.outside[0]!r}"
    )


def minimized(scenario, before=None, **more):
    """The run of a scenario, with other options of `minimize` if there are any."""
    objective = Objective(Problem(scenario), before)
    options = run_options(scenario) | more
    return played(lambda: sl.minimize(objective, start_of(scenario), **options), objective)


def resumed(scenario, file, before=None, **more):
    """The run of a file, continued."""
    problem = Problem(scenario)
    objective = Objective(problem, before)
    options = {"constraints": problem.constraints} if scenario.restrictions else {}
    if scenario.has_own_method:
        options["method"] = search_options(scenario)["method"]
    if scenario.style == "drawn":
        options["x0"] = start_of(scenario)
    return played(lambda: sl.resume(file, objective, **(options | more)), objective)


# Comparing


def outcome(result):
    """What two equal runs have in common, part by part."""
    history = result.history
    trace = history.trace()
    found = {name: result[name] for name in ("x", "fun", "nfev", "nit", "restarts", "status", "message", "success")}
    found |= {name: result[name] for name in ("reasons", "mean", "std", "cov", "diagnosis", "params")}
    for name in ("maxcv", "constr", "multipliers", "fun_error", "fun_values"):
        if name in result:
            found[name] = result[name]
    found |= {f"history {name}": column for name, column in history.arrays().items()}
    found |= {name: getattr(trace, name.removeprefix("trace ")) for name in TRACE}
    found |= {"runs": history.runs, "best run": history.best_run, "later": history.later}
    return found | {"failures": sorted(result.failures.counts.items())}


def plain(value):
    """A value with the bits of its numbers, to be compared by ==."""
    if isinstance(value, np.ndarray):
        return value.shape, value.tobytes()
    if isinstance(value, int | float | np.number):
        return np.float64(value).tobytes()
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return [(key, plain(part)) for key, part in value.items()] if isinstance(value, dict) else repr(value)


TRACE = frozenset(f"trace {name}" for name in ("nfev", "run", "mean", "deviations", "axes", "staying"))
"""What is known of the search distributions of a run."""


def same_result(what, one, other, without=()):
    """Assert that two results are equal to the last bit."""
    mine, theirs = outcome(one), outcome(other)
    differ = [name for name in mine if name not in without and plain(mine[name]) != plain(theirs.get(name))]
    values = "; ".join(f"{name}: {_short(theirs.get(name))} instead of {_short(mine[name])}" for name in differ[:4])
    assert not differ, f"{what} differs in {', '.join(differ)}: {values}"


def same_points(what, expected, points):
    """Assert that the same points were evaluated, in any order."""
    mine, theirs = (sorted(x.tobytes() for x in some) for some in (expected, points))
    assert mine == theirs, (
        f"{what}: {len(set(mine) ^ set(theirs))} other points; {len(points)} calls, not {len(expected)}"
    )


def _short(value):
    text = " ".join(repr(value).split())
    return text if len(text) < 300 else f"{text[:140]} … {text[-140:]}"


# What must hold of a run


def check_best(scenario, run):
    """The result is the best point that was evaluated, with the values that it has there."""
    problem, result = Problem(scenario), run.result
    has_value = not (scenario.is_bits and np.isnan(result.fun))  # x0 has probabilities
    assert problem.keeps(result.x) or not has_value, f"result.x = {result.x!r} is not in the space"
    if scenario.restrictions:
        check_constraints(scenario, result)
    if scenario.noise:
        return
    values = [_value(problem, x) for x in run.points]
    seen = [value for value in values if not np.isnan(value)]
    if not seen:
        assert np.isnan(result.fun), f"fun = {result.fun} although no evaluation had a value"
        return
    assert plain(result.fun) == plain(_value(problem, result.x)), f"fun = {result.fun!r} is not f(x)"
    ranks = [(_excess(problem, x), value) for x, value in zip(run.points, values, strict=True) if not np.isnan(value)]
    mine = (_excess(problem, result.x), result.fun)
    assert mine == min(ranks), f"(violation, fun) = {mine}, but {min(ranks)} was evaluated"


def check_constraints(scenario, result):
    """`constr` and `maxcv` are those at the result."""
    problem = Problem(scenario)
    violations = [problem.violation(one, result.x) for one in scenario.restrictions if not one.is_kept]
    largest = max(violations, default=0.0)
    if np.isfinite(result.fun):
        assert abs(result.maxcv - largest) <= 1e-12 * (1 + largest), f"maxcv = {result.maxcv}, but it is {largest}"
    assert not result.success or largest <= TOLERANCE, f"success with a violation of {largest}"


def _value(problem, x):
    """The value at a point, NaN if there is none."""
    try:
        return problem.value(x)
    except Stumble:
        return np.nan


def _excess(problem, x):
    """The largest inequality that the search handles, 0 if all are satisfied; equalities have a tolerance."""
    some = [one for one in problem.scenario.restrictions if not one.is_kept]
    allowed = [TOLERANCE if one.is_equality else 0.0 for one in some]
    return max(
        (max(problem.violation(one, x) - less, 0.0) for one, less in zip(some, allowed, strict=True)), default=0.0
    )


def check_counts(scenario, run):
    """Evaluations are those that were made, and the history adds up to them."""
    result, history = run.result, run.result.history
    stumbles = 0
    if scenario.is_retried:
        stumbles = sum(Problem(scenario).fails(x) for x in run.points) // 2
    counted = len(run.points) - stumbles - (run.stumbled if scenario.failure == "raise" else 0)
    assert result.nfev == counted, f"nfev = {result.nfev}, but there were {counted} calls"
    if scenario.maxfevals is not None:
        assert result.nfev <= scenario.maxfevals, f"nfev = {result.nfev} exceeds maxfevals = {scenario.maxfevals}"
    nfev = history["nfev"]
    assert len(nfev) == result.nit, f"{len(nfev)} rows of {result.nit} generations"
    sizes = [one.popsize for one in history.runs]
    assert min(sizes, default=1) > 0, f"the runs of the history have popsizes {sizes}"
    first = int(len(nfev) > 0 and nfev[0] > sizes[0])  # x0
    made = np.diff(nfev, prepend=first)
    popsizes = np.repeat(sizes, [one.rows.stop - one.rows.start for one in history.runs])
    is_right = (made <= popsizes) & (made >= 0) if scenario.surrogate else made == popsizes
    assert is_right.all(), f"generations of {made} evaluations, with the popsizes {popsizes}"
    assert history.later == result.nfev - (nfev[-1] if len(nfev) else 0), f"history.later = {history.later}"
    repr(result), result.to_json(), repr(history)


def check_workers(scenario, run):
    """A run with two workers is the same."""
    if scenario.vectorized and (scenario.popsize is not None or scenario.surrogate):
        return  # batches of a fixed size are always whole
    if run.stumbled:
        return  # some evaluations may be under way
    if scenario.workers == "processes":
        workers = 2
    elif scenario.workers == "map":
        workers = map
    else:
        workers = thread_pool() if scenario.workers == "threads" else process_pool()
    options = {"workers": workers, "vectorized": False}
    if scenario.workers in ("pool", "processes"):
        if scenario.workers == "processes" and scenario.surrogate is True:
            return  # two at a time
        options = run_options(scenario) | options
        result = sl.minimize(Problem(scenario), start_of(scenario), **options)
    else:
        other = minimized(scenario, **options)
        result = other.result
        same_points("with two workers", run.points, other.points)
    # Which failure is the last one depends on the order in which values arrive.
    same_result("with two workers", run.result, result, {"diagnosis"} if run.result.failures else ())


@cache
def thread_pool():
    """Two threads."""
    return ThreadPoolExecutor(2)


@cache
def process_pool():
    """Two processes."""
    return ProcessPoolExecutor(2, mp_context=get_context("forkserver"))


# Files


@contextlib.contextmanager
def writing(scenario):
    """When values and states are written."""
    before = {name: getattr(recorder, name) for name in ("WRITING", "REPLAY", "SELDOM", "CHEAP")}
    recorder.WRITING = 1e9 if scenario.writes else 0.0
    recorder.SELDOM, recorder.REPLAY = np.inf, -1.0 if scenario.period == 1 else np.inf
    recorder.CHEAP = np.inf if scenario.period else 1.0
    try:
        yield
    finally:
        for name, value in before.items():
            setattr(recorder, name, value)


def periodically(scenario):
    """A callback by which the state is stored after every so many generations."""

    def callback(intermediate_result):
        recorder.REPLAY = -1.0 if scenario.period and (intermediate_result.nit + 1) % scenario.period == 0 else np.inf

    return callback


def copied(file, target):
    """The file as a killed process would leave it at this moment."""
    for end in ("", "-wal"):
        if (source := file.with_name(file.name + end)).exists():
            shutil.copyfile(source, target.with_name(target.name + end))
    return target


@dataclass
class Once:
    """Does something before the first call of an objective after so many evaluations."""

    evaluations: int
    action: Callable[[], object]
    happened: int | None = None  # after so many, for a batch is one call

    def __call__(self, count):
        if self.happened is None and count >= self.evaluations:
            self.happened = count
            self.action()


def moment_of(part, run):
    """So many evaluations of a run, in which at least one comes later."""
    return int(part * (len(run.points) - 1))


def check_stored(scenario, run, folder):
    """A stored run is the same, and so is what is read from its file, and what goes on from a copy of it."""
    file, copy = folder / "run.db", folder / "killed.db"
    before = Once(moment_of(scenario.moment, run), lambda: copied(file, copy))
    with writing(scenario):
        stored = minimized(scenario, before, store=file, callback=periodically(scenario))
        same_result("the stored run", run.result, stored.result)
        check_loaded(scenario, run, file)
        if before.happened is not None:
            check_resumed("killed", scenario, run, copy, before.happened)
    again = resumed(scenario, file, check=False)
    if not run.stumbled:
        assert not again.points, f"a run that has ended made {len(again.points)} evaluations when it was resumed"
    same_result("the run that was resumed after its end", run.result, again.result)


def check_loaded(scenario, run, file):
    """What is read from a file is the result, and the points that were evaluated."""
    loaded = sl.load(file)
    check_loaded_result("load", scenario, run, loaded.result)
    count = run.result.nfev - run.result.get("fun_values", np.empty(0)).size
    if not scenario.noise:
        assert len(loaded.values) == count, f"{len(loaded.values)} values in a file of {count}"
    repr(loaded)


def check_resumed(how, scenario, run, file, moment):
    """A run that was ended at a moment and is resumed is the same."""
    loaded = sl.load(file).result
    assert loaded.nfev <= moment, f"{how}: {loaded.nfev} evaluations are loaded of {moment}"
    check_status(file, loaded)
    check = bool(scenario.seed % 2)
    again = resumed(scenario, file, check=check)
    same_result(f"the run that was {how} after {moment} evaluations and resumed", run.result, again.result)
    most = (
        len(run.points)
        - (moment if scenario.writes and not scenario.vectorized else 0)
        + 2 * check
        + scenario.is_retried
    )
    assert len(again.points) <= most, f"{how}: {len(again.points)} calls after {moment} of {len(run.points)}"
    check_loaded_result(f"load of the run that was {how} and resumed", scenario, run, sl.load(file).result)


def check_status(file, loaded):
    """The list of runs says of a file what `load` says of it."""
    status = read_status(file)
    is_feasible = not loaded.get("maxcv", 0.0) > TOLERANCE
    told = status.best, status.nfev, status.nit, status.reasons
    known = loaded.fun if is_feasible else np.nan, loaded.nfev, loaded.nit, loaded.reasons
    assert plain(told) == plain(known), f"`runs` says {told}, `load` says {known}"


def check_interrupted(scenario, run, folder):
    """A run that is interrupted from inside the objective can be loaded and resumed."""
    file = folder / "interrupted.db"
    before = Once(moment_of(1 - scenario.moment, run), interrupt)
    with writing(scenario):
        cut = minimized(scenario, before, store=file, callback=periodically(scenario)).result
        if before.happened is None:
            return  # a batch
        check_state_so_far("load of an interrupted run", scenario, cut, sl.load(file).result)
        check_resumed("interrupted", scenario, run, file, before.happened)


def interrupt():
    """What Ctrl-C does."""
    raise KeyboardInterrupt


def check_loaded_result(what, scenario, run, loaded):
    """What is loaded is the result; constraint functions are not stored."""
    if run.stumbled:
        check_state_so_far(what, scenario, run.result, loaded)
    else:
        same_result(what, run.result, loaded, without={"constr"})


def check_state_so_far(what, scenario, result, loaded):
    """A file that was left within a generation has the best point, and the distribution that was stored last."""
    without = {"mean", "std", "cov", "diagnosis", "multipliers", "message", "success", "constr", "runs", *TRACE}
    if scenario.noise:
        without |= {"x", "params", "fun", "maxcv"}
    same_result(what, result, loaded, without)
    unknown = {"reasons": {}} | ({"popsize": 0} if scenario.surrogate else {})  # which evaluates fewer points
    mine, theirs = ([one._replace(**unknown) for one in some.history.runs] for some in (result, loaded))
    assert plain(mine) == plain(theirs), f"{what} has the runs {theirs}, not {mine}"


def check_extended(scenario, run, folder):
    """A run that ends at a smaller budget and is resumed with the larger one is the same."""
    file = folder / "extended.db"
    low = sl.Optimizer(start_of(scenario), **search_options(scenario)).popsize
    if scenario.noise or scenario.evaluate_x0:
        low += 1
    if scenario.noise or scenario.maxfevals is None or scenario.maxfevals <= low:
        return  # re-evaluations depend on the budget
    budgets = sorted(np.random.default_rng(scenario.seed).integers(low, scenario.maxfevals, 2).tolist())
    with writing(scenario):
        less = minimized(scenario, maxfevals=budgets[0], store=file, callback=periodically(scenario))
        check_best(replace(scenario, maxfevals=budgets[0]), less)
        check_loaded_result("load of a smaller budget", scenario, less, sl.load(file).result)
        smaller = resumed(scenario, file, maxfevals=low, check=False).result
        same_result(
            "the run resumed with a smaller budget",
            less.result,
            smaller,
            without={"reasons", "runs", "message", "status"},
        )
        for budget in (budgets[1], scenario.maxfevals):
            more = resumed(scenario, file, maxfevals=budget, check=False)
    same_result(f"the run extended from {budgets} evaluations", run.result, more.result)


def check_killed_process(scenario, run, folder):
    """A process that ends at once leaves a file from which the run goes on."""
    file, moment = folder / "process.db", moment_of(scenario.moment, run)
    before = Once(moment, lambda: os.kill(os.getpid(), signal.SIGKILL))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of threads
        pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException), writing(scenario):
            minimized(scenario, before, store=file, callback=periodically(scenario))
        os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status) or scenario.vectorized, "the process was not killed"
    most = len(run.points) if scenario.vectorized else moment  # a batch may have more points
    check_resumed("killed with its process", scenario, run, file, most)


# Ask and tell


def check_asked(scenario, run):
    """An optimizer that is pickled in mid-run asks the points of `minimize`, in its space."""
    problem, rng = Problem(scenario), np.random.default_rng(scenario.seed)
    options = search_options(scenario)
    if options["method"] is None and scenario.style != "drawn":  # that of `minimize`, which knows the budget
        budget = np.inf if scenario.maxfevals is None else scenario.maxfevals
        options["method"] = default_method(scenario.noise, budget / len(scenario.variables))
    optimizer = sl.Optimizer(start_of(scenario), **options)
    if run.result.nit == 0:
        return  # too few evaluations to tell whether the first one is the start
    expected = run.points
    if evaluates_start(run, optimizer):  # the best point is where infeasible points are moved to
        expected = run.points[1:]
        start = np.array(run.points[:1])
        optimizer.note(start, np.array([_value(problem, start[0])]), asked_constraints(problem, optimizer, start))
    if scenario.is_retried:
        expected = without_retries(problem, expected)
    asked, known = [], int(run.result.history["nfev"][-1]) if scenario.noise else len(expected)  # not re-evaluations
    while len(asked) < known and not optimizer.stop():
        if rng.random() < 0.2:
            optimizer = pickle.loads(pickle.dumps(optimizer))
        points = optimizer.ask()
        if rng.random() < 0.2:
            optimizer = pickle.loads(pickle.dumps(optimizer))
        asked.extend(points)
        values = [_value(problem, x) for x in points]
        is_needed = scenario.own or scenario.failure  # else `tell` calls the functions
        optimizer.tell(points, values, asked_constraints(problem, optimizer, points) if is_needed else None)
    count = min(len(asked), known)
    differs = [i for i in range(count) if asked[i].tobytes() != expected[i].tobytes()]
    assert not differs, f"an optimizer asks another point {differs[0]} of {count} than `minimize`"


def without_retries(problem, points):
    """Points of which those that fail come twice, once each."""
    found, left = [], list(points)
    while left:
        found.append(left.pop(0))
        if left and problem.fails(found[-1]):
            left.pop(0)
    return found


def asked_constraints(problem, optimizer, points):
    """Values (n, k) of the constraints that the search handles, NaN where f has no value; None without any."""
    if optimizer.constraints is None or not optimizer.constraints.parts:
        return None
    own = problem.scenario.own
    values = [[problem.excess(one, x) for one in own] for x in points]
    others = [one for one in problem.scenario.restrictions if one.form != "own" and not one.is_kept]
    for row, x in zip(values, points, strict=True):
        for one in others:
            row.append(problem.restricted(one, x) if one.form != "dict" else one.upper - problem.restricted(one, x))
        if problem.scenario.failure in ("raise", "nan") and problem.fails(x):
            row[:] = [np.nan] * len(row)
    return np.array(values)


def evaluates_start(run, optimizer):
    """Whether the start was evaluated before the first generation."""
    if optimizer.partial is not None:
        return run.points[0].tobytes() == optimizer.start.x0.tobytes()
    return run.result.history["nfev"][0] > optimizer.popsize


# Curvature


def check_curvature(scenario, run):
    """A curvature is computed, or refused with a sentence, from values inside of the space and the constraints."""
    problem, result = Problem(scenario), run.result
    objective = Objective(problem)
    on_error = "nan" if scenario.failure == "raise" else "raise"
    options = {"vectorized": scenario.vectorized, "on_error": on_error, "maxfevals": 3000}
    try:
        found = sl.curvature(objective, result, **options)
    except (ValueError, TypeError) as error:
        check_sentence(error)
        return check_inside(objective)
    check_inside(objective)
    assert found.nfev == len(objective.points) or on_error == "nan", f"nfev = {found.nfev} of {len(objective.points)}"
    assert problem.keeps(found.x), f"the curvature is at {found.x!r}"
    repr(found), found.summary()


# All of it


def check_sentence(error):
    """A refusal says what is wrong."""
    text = str(error)
    assert len(text) > 25, f"refused with {error!r}"
    assert text.endswith("."), f"refused with {error!r}"


def check(scenario, folder):
    """Make the runs of a scenario with files in a new folder; return the sentence by which it is refused, or None."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", UserWarning)
        try:
            return _check(scenario, folder)
        except Exception as error:
            raise WrongRun(_report(scenario, error)) from error


def _check(scenario, folder):
    objective = Objective(Problem(scenario))
    options = run_options(scenario)
    try:
        run = played(lambda: sl.minimize(objective, start_of(scenario), **options), objective)
    except (ValueError, TypeError) as error:
        if objective.points:
            raise
        check_sentence(error)
        return str(error)
    check_best(scenario, run)
    check_counts(scenario, run)
    check_asked(scenario, run)
    check_workers(scenario, run)
    check_stored(scenario, run, folder)
    if scenario.seed % 2:
        check_interrupted(scenario, run, folder)
    check_extended(scenario, run, folder)
    if scenario.seed % 8 == 0:
        check_killed_process(scenario, run, folder)
    if scenario.curvature and not scenario.is_bits and not run.stumbled:
        check_curvature(scenario, run)
    return None


def _report(scenario, error):
    """What went wrong, and how to see it again."""
    is_drawn = scenario == draw(scenario.seed)
    command = f"python benchmarks/whole_runs.py --seeds {scenario.seed}:{scenario.seed + 1}"
    place = traceback.extract_tb(error.__traceback__)
    inside = [frame for frame in place if "sublevel" in frame.filename]
    where = "".join(f"\n  {frame.filename}:{frame.lineno} {frame.name}" for frame in inside[-3:])
    return f"{type(error).__name__}: {error}{where}\n{scenario!r}\n{command if is_drawn else ''}"
