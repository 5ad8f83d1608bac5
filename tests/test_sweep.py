"""Before a run with discrete variables ends, other values of single variables of its best point are tried."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import numpy as np
import pytest
import scipy.optimize
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import LinearConstraint, NonlinearConstraint

import sublevel as sl
from helpers.mixed import SEPARATE as PLAIN
from helpers.mixed import leaves, rastrigin, same_bits
from sublevel.cli.main import main
from sublevel.engine.families import FAMILIES
from sublevel.run import optimizer as optimizer_module
from sublevel.run.minimize import Limits
from sublevel.run.restarts import STRATEGIES
from sublevel.run.sweep import LENGTHS, ROUNDS, STEPS, Sweep
from sublevel.run.termination import CONVERGED, Reason

SEEDS = range(20)
SPACE = sl.Space(
    x=sl.Real(-5, 5), y=sl.Real(1e-3, 10, log=True), z=sl.Real(scale=2.0), n=sl.Integer(0, 12), m=sl.Integer(3, 10**6),
    w=sl.Integer(1, 500, log=True), u=sl.Integer(scale=5.0), k=sl.Choice(*"abcd"), s=sl.Choice(*"SML", ordered=True),
    fixed=sl.Real(1, 1), f=2.0,
)  # fmt: skip


@pytest.fixture
def without_sweeps(monkeypatch):
    """No run tries changes."""
    monkeypatch.setattr(sl.Optimizer, "_sweep_is_due", property(lambda self: False))


@pytest.fixture
def sweeps(monkeypatch):
    """The sweeps that were begun, in this process."""
    begun, begin = [], Sweep.begin.__func__

    def spy(cls, *args):
        begun.append(begin(cls, *args))
        return begun[-1]

    monkeypatch.setattr(Sweep, "begin", classmethod(spy))
    return begun


def changes_of(space):
    optimizer = sl.Optimizer(space, rng=1)
    assert optimizer.changes is not None
    return optimizer.changes, optimizer


# The changes


def neighbours(x, low, high):
    """The other integers of a range, nearest first, lower ones first: by a plain loop."""
    return sorted((i for i in range(low, high + 1) if i != x), key=lambda i: (abs(i - x), i))


@pytest.mark.parametrize("x", range(13))
def test_all_other_integers_are_tried_nearest_first(x):
    changes, optimizer = changes_of(sl.Space(n=sl.Integer(0, 12), a=sl.Real(0, 1)))
    points = changes.points(np.array([x, 0.5]), 0, changes.total)
    tried = points[points[:, 0] != x, 0]
    assert sorted(tried) == sorted(neighbours(x, 0, 12))
    assert (np.diff(np.abs(tried - x)) >= 0).all()
    assert optimizer.changes.total == 12 + LENGTHS


def test_all_other_categories_are_tried_once():
    changes, _ = changes_of(sl.Space(k=sl.Choice(*"abcde"), b=sl.Choice(False, True)))
    points = changes.points(np.array([3.0, 1.0]), 0, changes.total)
    assert sorted(points[points[:, 0] != 3, 0]) == [0, 1, 2, 4]
    assert points[points[:, 1] != 1].tolist() == [[3, 0]]
    assert len(points) == 5


def test_real_variables_change_in_both_directions_and_by_all_lengths():
    changes, optimizer = changes_of(sl.Space(a=sl.Real(scale=2.0), b=sl.Real(scale=3.0), n=sl.Integer(0, 1)))
    x = np.array([1.0, -1.0, 0.0])
    points = changes.points(x, 0, changes.total)
    for i, scale in enumerate([2.0, 3.0]):
        steps = (points[:, i] - x[i])[points[:, i] != x[i]] / scale
        assert steps.size == LENGTHS
        assert np.count_nonzero(steps > 0) == LENGTHS // 2
        for side in (steps[steps > 0], -steps[steps < 0]):
            places = np.sort(np.log(side / STEPS[0]) / np.log(STEPS[1] / STEPS[0]))
            gaps = np.diff([0, *places, 1])
            assert gaps.max() < 2.5 / len(side)  # evenly spread by their logarithm
    assert optimizer.theta.dimension == 3


@pytest.mark.parametrize(
    ("parameter", "start"),
    [
        (sl.Integer(0, 200), 100),
        (sl.Integer(1, 1000), 5),
        (sl.Integer(0, 10**6), 0),
        (sl.Integer(0, 10**6), 10**6),
        (sl.Integer(0, 10**6), 400),
        (sl.Integer(2, 256, log=True), 16),
        (sl.Integer(1, 10**6, log=True), 1),
        (sl.Integer(1, 10**6, log=True), 3000),
        (sl.Integer(scale=5), 0),
        (sl.Integer(scale=0.5), 7),
        (sl.Integer(-3, scale=1e6), -3),
        (sl.Real(0, 1), 0),
        (sl.Real(0, 1), 1),
        (sl.Real(1e-3, 1e3, log=True), 1e3),
        (sl.Real(scale=2), 0),
    ],
)
def test_all_changes_of_a_variable_differ(parameter, start):
    changes, optimizer = changes_of(sl.Space(v=parameter, k=sl.Choice(1, 2)))
    points = changes.points(np.array([start, 0.0]), 0, changes.total)[:, 0]
    changed = points[points != start]
    assert len(np.unique(changed)) == len(changed) == (LENGTHS if isinstance(parameter, sl.Real) else ROUNDS)
    assert optimizer.theta.dimension == 1


@pytest.mark.parametrize("log", [False, True])
def test_integers_of_long_ranges_change_by_all_lengths(log):
    changes, _ = changes_of(sl.Space(n=sl.Integer(1, 10**6, log=log), k=sl.Choice(1, 2)))
    steps = (changes.points(np.array([1000.0, 0.0]), 0, changes.total) - [1000.0, 0.0])[:, 0]
    assert {-1, 2} <= set(steps)
    assert steps.max() > 10**5
    assert steps.min() < -999 / 1.2


@st.composite
def points_of_spaces(draw):
    """A space, and one of its points."""
    parameters = {}
    for i in range(draw(st.integers(1, 6))):
        kind, low, width = draw(st.integers(0, 6)), draw(st.integers(-50, 50)), draw(st.integers(1, 400))
        parameters[f"p{i}"] = [
            sl.Real(low, low + width), sl.Real(10.0**-width % 1 + 1e-6, 1e3, log=True), sl.Real(scale=float(width)),
            sl.Integer(low, low + width), sl.Integer(1, 1 + width, log=True), sl.Integer(scale=float(width)),
            sl.Choice(*range(2 + width % 7)),
        ][kind]  # fmt: skip
    parameters["last"] = sl.Choice("a", "b", ordered=draw(st.booleans()))
    return sl.Space(parameters), draw(st.integers(0, 2**32))


@settings(max_examples=300, deadline=None)
@given(points_of_spaces(), st.integers(0, 1000), st.integers(1, 60))
def test_every_change_is_a_valid_point_that_differs_in_one_variable(case, first, count):
    space, seed = case
    changes, optimizer = changes_of(space)
    x = optimizer.space.points(optimizer.theta.sample(np.random.default_rng(seed), 2).x)[0]
    first %= changes.total
    points = changes.points(x, first, min(count, changes.total - first))
    lower, upper = optimizer.space.box
    assert ((points >= lower) & (points <= upper)).all()
    assert (np.count_nonzero(points != x, axis=1) <= 1).all()
    assert [space.encode(space.decode(point)).tolist() for point in points] == points.tolist()
    joined = [changes.points(x, k, 1)[0].tolist() for k in range(first, first + len(points))]
    assert joined == points.tolist()


# What a sweep finds


def test_minima_of_separate_variables_are_found():
    assert all(sl.minimize(rastrigin, **PLAIN, rng=seed).fun < 1e-12 for seed in SEEDS)


@pytest.mark.usefixtures("without_sweeps")
def test_without_sweeps_they_are_not_found():
    found = [sl.minimize(rastrigin, **PLAIN, rng=seed).fun < 1e-12 for seed in SEEDS]
    assert np.count_nonzero(found) < len(SEEDS) / 2


def bowl(x):
    return float(np.sum((np.asarray(x) - [0.3, -1.2, 2, 3, -4, 0]) ** 2))


def follow(fun, optimizer):
    """Tell an optimizer values until it stops; its distributions and whether they were kept in a sweep."""
    thetas, is_swept = [], []
    while not optimizer.stop():
        X = optimizer.ask()
        is_swept.append(optimizer.is_sweeping)
        optimizer.tell(X, [fun(x) for x in X])
        thetas.append(optimizer.theta)
    return thetas, np.array(is_swept)


def test_a_sweep_that_finds_nothing_ends_the_run_as_it_would_have_ended(monkeypatch):
    for seed in range(10):
        swept, plain = sl.Optimizer(**PLAIN, rng=seed), sl.Optimizer(**PLAIN, rng=seed)
        thetas, is_swept = follow(bowl, swept)
        with monkeypatch.context() as patched:
            patched.setattr(sl.Optimizer, "_sweep_is_due", property(lambda self: False))
            others, none = follow(bowl, plain)
            ends = plain.stop()
        assert not none.any()
        assert is_swept.any()
        assert not is_swept[: len(others)].any()
        assert is_swept[len(others) :].all()
        assert swept.stop() == ends
        assert np.array_equal(swept.best_x, plain.best_x)
        assert all(same_bits(a, b) for a, b in zip(thetas, others, strict=False))
        assert all(same_bits(theta, others[-1]) for theta in thetas[len(others) :])
        share = optimizer_module.SHARE * plain.nfev
        assert swept.nfev - plain.nfev <= max(share, swept.popsize) + swept.popsize


def test_the_search_goes_on_around_a_better_point():
    count = 0
    for seed in range(10):
        optimizer = sl.Optimizer(**PLAIN, rng=seed)
        initial = optimizer.deviations.copy()
        while not optimizer.stop():
            X = optimizer.ask()
            before = optimizer.is_sweeping
            optimizer.tell(X, [rastrigin(x) for x in X])
            if before and not optimizer.is_sweeping and optimizer.run_state.sweep.has_succeeded:
                count += 1
                assert np.allclose(optimizer.mean, optimizer.best_x, rtol=1e-12)
                assert np.allclose(optimizer.deviations[:2], optimizer_module.SWEPT * initial[:2])
        assert optimizer.best_fun < 1e-12
    assert count >= 5


def test_a_sweep_begins_only_once_the_best_point_has_changed(sweeps):
    result = sl.minimize(bowl, **PLAIN, rng=1, restarts=3)
    assert len(sweeps) <= 1 + result.restarts
    assert len({sweep.level for sweep in sweeps}) == len(sweeps)


@pytest.mark.parametrize("seed", range(10))
def test_no_single_change_is_better_where_a_run_ends(seed):
    """Also where the search does not improve on a point that a sweep has found."""
    target = 9 * np.arange(10) + 5

    def fun(x):
        u = x - target
        return float(np.sum(np.abs(u) ** 0.5 + 3 * (u * 7919 % 11 != 0)))

    result = sl.minimize(fun, [50] * 10, 25, integrality=1, bounds=(0, 100), rng=seed)
    others = np.tile(result.x, (1010, 1))
    others[np.arange(1010), np.arange(1010) // 101] = np.arange(1010) % 101
    assert result.fun <= min(map(fun, others))


@pytest.mark.parametrize("name", sorted({"maxfevals", "stagnation", "flat", "diverged", "noise_floor"}))
def test_runs_that_have_not_converged_try_no_changes(name, monkeypatch, sweeps):
    assert name not in CONVERGED
    monkeypatch.setattr(optimizer_module, "find_reason", lambda *_: Reason(name, 1.0))
    sl.minimize(bowl, **PLAIN, rng=1, maxfevals=100)
    assert not sweeps


def in_first_sweep(fun):
    """An optimizer that has asked for the first changes, and these (n, d)."""
    optimizer = sl.Optimizer(**PLAIN, rng=1)
    while True:
        X = optimizer.ask()
        if optimizer.is_sweeping:
            return optimizer, X
        optimizer.tell(X, [fun(x) for x in X])


def first_sweep(fun):
    """The evaluations after which the first sweep of a run begins."""
    return in_first_sweep(fun)[0].nfev


@pytest.mark.parametrize("more", [8, 20, 40, 47])
def test_a_run_whose_budget_ends_in_a_sweep_has_converged(more):
    count = first_sweep(bowl) + 1  # and x0
    result = sl.minimize(bowl, **PLAIN, rng=1, maxfevals=count + more)
    whole = sl.minimize(bowl, **PLAIN, rng=1)
    assert result.nfev == count + more < whole.nfev
    assert result.success
    assert result.reasons == whole.reasons
    iterations = sl.minimize(bowl, **PLAIN, rng=1, maxiter=result.nit + 1)
    assert iterations.reasons == whole.reasons
    restarting = sl.minimize(bowl, **PLAIN, rng=1, maxfevals=count + more, restarts=2)
    assert set(restarting.reasons) == {"maxfevals"}


def test_a_run_whose_time_ends_in_a_sweep_has_converged(monkeypatch):
    count, calls = first_sweep(bowl) + 1, 0

    def fun(x):
        nonlocal calls
        calls += 1
        if calls == count + 10:
            monkeypatch.setattr(Limits, "too_late", {"maxtime": 60.0})
        return bowl(x)

    result = sl.minimize(fun, **PLAIN, rng=1, maxtime=60)
    assert result.nfev == count + 10
    assert result.success


def test_a_run_that_has_ended_goes_on_with_other_tolerances(tmp_path):
    file = tmp_path / "run.db"
    before = sl.minimize(bowl, **PLAIN, rng=1, tolx=1e-2, store=file)
    after = sl.resume(file, bowl, tolx=0.0)
    assert set(before.reasons) == set(after.reasons) == {"tolx"}
    assert after.fun < 1e-15 < before.fun
    assert after.nfev > before.nfev


def test_ask_and_tell_may_go_on_after_the_end():
    optimizer = sl.Optimizer(**PLAIN, rng=1, tolx=1e-2)
    follow(bowl, optimizer)
    before = optimizer.best_fun
    optimizer.tolerances = optimizer.tolerances._replace(x=0.0)
    for _ in range(5):
        X = optimizer.ask()
        optimizer.tell(X, [bowl(x) for x in X])
    follow(bowl, optimizer)
    assert optimizer.best_fun < 1e-15 < before


@pytest.mark.parametrize("tolfun", [None, 1e-3])
def test_sweeps_do_not_look_noisy(tolfun):
    count = first_sweep(bowl)
    for seed in range(12):
        short = sl.minimize(bowl, **PLAIN, rng=seed, maxfevals=count + 30, tolfun=tolfun)
        whole = sl.minimize(rastrigin, **PLAIN, rng=seed, tolfun=tolfun)
        for result in (short, whole):
            assert not {"noisy", "noise_floor", "flat"} & {finding.name for finding in result.diagnosis}


def test_generations_of_a_sweep_have_no_best_value_of_the_search():
    result = sl.minimize(bowl, **PLAIN, rng=1)
    values = result.history["generation_best"]
    assert 1 <= np.count_nonzero(np.isnan(values)) < len(values) / 4
    assert np.isnan(values[-1])


def test_noisy_and_real_problems_have_no_sweeps(sweeps):
    rng = np.random.default_rng(1)
    sl.minimize(lambda x: bowl(x) + rng.normal(), **PLAIN, rng=1, noise=True, maxfevals=3000)
    sl.minimize(rastrigin, [2.6] * 4, 1.0, bounds=(-5, 5), rng=1)
    assert not sweeps
    assert sl.Optimizer([2.6] * 4, 1.0).run_state.sweep is None


def test_values_that_are_missing_do_not_end_a_sweep():
    count = 0

    def fun(x):
        nonlocal count
        count += 1
        return np.nan if count % 5 == 0 else rastrigin(x)

    assert sl.minimize(fun, **PLAIN, rng=1).fun < 1e-9


@pytest.mark.parametrize("factor", [2.0**-40, 2.0**40])
def test_scaling_the_values_changes_nothing(factor):
    for seed in range(3):
        plain, scaled = (sl.minimize(lambda x, c=c: c * rastrigin(x), **PLAIN, rng=seed) for c in (1.0, factor))
        assert (plain.nfev, plain.x.tobytes()) == (scaled.nfev, scaled.x.tobytes())
        assert scaled.fun == factor * plain.fun


def test_differences_up_to_rounding_are_no_better_points(sweeps):
    """A variable without effect, and values with errors of rounding: each run tries changes once."""
    noise = iter(np.random.default_rng(1).uniform(-1e-14, 1e-14, 100_000))
    options = {"integrality": [0, 0, 1], "bounds": [(-5, 5)] * 3, "rng": 1}
    sl.minimize(lambda x: 1.0 + x[0] ** 2 + x[2] ** 2 + next(noise), [1.0] * 3, 1.0, **options)
    assert len(sweeps) <= 2


# Together with everything else

BOX = sl.Space(
    x=sl.Real(-5, 5, start=3.1), y=sl.Real(1e-3, 10, log=True), n=sl.Integer(0, 12), w=sl.Integer(1, 500, log=True),
    k=sl.Choice(*"abcd"),
)  # fmt: skip


def separate(p):
    """A function of separate parameters with local minima, or of lists of them; its minimum is 0."""
    x, n, y, w = (np.asarray(p[name], dtype=float) for name in "xnyw")
    ripples = 10 - 10 * np.cos(2 * np.pi * np.stack([x, n - 3.5]))
    cost = np.select([np.asarray(p["k"]) == value for value in "abcd"], [2.0, 1.0, 3.0, 0.0])
    return x**2 + (n - 3) ** 2 + ripples[0] + np.log(y / 0.02) ** 2 + np.abs(w - 40) ** 0.5 + cost


def allowance(p):
    """At least 0 where points may be evaluated."""
    return 4.0 - np.asarray(p["x"])


def kept(p):
    assert allowance(p) >= 0
    return separate(p)


AXES = {
    "method": {f"{prefix}{name}": {"method": f"{prefix}{name}"} for prefix in FAMILIES for name in ("cma", "xnes")},
    "rates": {"lra": {"method": "lra-cma"}, "step size": {"method": sl.cma(step_size="tpa")}},
    "restarts": {name: {"restarts": name} for name in STRATEGIES},
    "evaluation": {
        "threads": {"workers": "threads"},
        "vectorized": {"vectorized": True},
        "map": {"workers": map},
    },
    "files": {"store": {"store": True}},
    "constraints": {
        "handled": {"constraints": NonlinearConstraint(allowance, 0, np.inf)},
        "kept": {"constraints": NonlinearConstraint(allowance, 0, np.inf, keep_feasible=True)},
        "linear": {"constraints": LinearConstraint([[1.0, 0, 0, 0, 0]], -np.inf, 4.0)},
    },
    "tolerances": {"tolfun": {"tolfun": 1e-6}, "tolx": {"tolx": 1e-6}},
    "target": {"ftarget": {"ftarget": 1e-3}},
    "errors": {"nan": {"on_error": "nan"}},
    "curvature": {"curvature": {"curvature": True}},
    "observers": {"callback": {"callback": lambda intermediate_result: None}, "progress": {"progress": True}},
    "sizes": {"popsize": {"popsize": 30}},
}
OPTIONS = {(axis, name): option for axis, options in AXES.items() for name, option in options.items()}
PAIRS = [pair for pair in combinations(OPTIONS, 2) if {pair[0][0], pair[1][0]} != {"method", "rates"}]
PAIRS = [pair for pair in PAIRS if pair[0][0] != pair[1][0]]


@pytest.fixture(scope="module")
def threads():
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.mark.parametrize("pair", PAIRS, ids=[" ".join(f"{a}={b}" for a, b in pair) for pair in PAIRS])
def test_every_two_options_go_together_with_sweeps(pair, sweeps, threads, tmp_path, capsys):
    options = OPTIONS[pair[0]] | OPTIONS[pair[1]]
    if options.get("store"):
        options["store"] = tmp_path / "run.db"
    if options.get("workers") == "threads":
        options["workers"] = threads
    constraint = options.get("constraints")
    if options.get("vectorized") and isinstance(constraint, NonlinearConstraint):
        options["constraints"] = NonlinearConstraint(
            lambda p: allowance(p)[:, None], 0, np.inf, keep_feasible=constraint.keep_feasible
        )
    fun = kept if constraint is not None and constraint.keep_feasible and "vectorized" not in options else separate
    if set(pair) == {("rates", "step size"), ("constraints", "kept")}:
        with pytest.raises(ValueError, match="cannot be combined with keep_feasible"):
            sl.minimize(fun, BOX, **options)
        return
    result = sl.minimize(fun, BOX, rng=1, maxfevals=6000, **options)
    assert sweeps or not result.reasons.keys() <= CONVERGED
    assert result.fun == pytest.approx(separate(result.params))
    assert result.params["x"] <= 4.0 or constraint is None
    assert BOX.encode(result.params).tolist() == result.x.tolist()
    if "store" in options:
        assert sl.load(options["store"]).result.fun == result.fun
        assert sl.load(options["store"]).points.shape == (sl.load(options["store"]).values.size, 5)
    capsys.readouterr()


@pytest.mark.parametrize("method", ["cma", "sep-cma", "iso-cma", "xnes", "ngd", "lra-cma"])
@pytest.mark.parametrize("extra", ["none", "constraint", "kept", "restarts"])
def test_sweeping_often_does_no_harm(method, extra, monkeypatch):
    """Every point is valid and every state finite if sweeps begin at any time, whatever they find."""
    monkeypatch.setattr(
        optimizer_module, "find_reason", lambda standing, *_: REASON if standing.generations % 7 else None
    )
    monkeypatch.setattr(optimizer_module, "SHARE", 0.5)
    options = {"none": {}, "constraint": {"constraints": 1}}.get(extra, {"restarts": 3})
    if extra == "kept":
        options = {"constraints": NonlinearConstraint(allowance, 0, np.inf, keep_feasible=True)}
    optimizer, count = sl.Optimizer(BOX, method=method, rng=3, **options), 0
    for _ in range(150):
        X = optimizer.ask()
        count += optimizer.is_sweeping
        assert [BOX.encode(BOX.decode(x)).tolist() for x in X] == X.tolist()
        assert extra != "kept" or X[:, 0].max() <= 4.0
        g = {"constraints": [[3.0 - x[2]] for x in X]} if extra == "constraint" else {}
        optimizer.tell(X, [separate(BOX.decode(x)) for x in X], **g)
        assert all(np.isfinite(leaf).all() for leaf in leaves(optimizer.theta))
    assert count >= 10


REASON = Reason("tolx", 1e-12)


@pytest.mark.parametrize("rejected", [0.0, 0.5, 1.0])
def test_points_that_are_not_allowed_are_left_out(rejected):
    changes, optimizer = changes_of(BOX)
    rng, x = np.random.default_rng(1), optimizer.start.x0
    n, sweep, tried = 10, Sweep(45), []
    while sweep.position < sweep.size:
        points, position = changes.next_points(x, sweep, n, lambda X: rng.random(len(X)) >= rejected)
        assert points.shape == (n, 5)
        assert position == sweep.size or (points != x).any(axis=1).all()
        tried += [point for point in points.tolist() if point != x.tolist()]
        sweep = sweep.after(position, 0.0, 0.0)
        if not sweep.is_active:
            break
    assert len(tried) == 45 if rejected == 0 else len(tried) < 45
    assert len({tuple(point) for point in tried}) == len(tried)


def test_ask_without_tell_gives_the_same_changes_again():
    optimizer, X = in_first_sweep(bowl)
    state = optimizer.rng.bit_generator.state
    assert np.array_equal(optimizer.ask(), X)
    assert not optimizer.stop()
    assert optimizer.rng.bit_generator.state == state
    shuffled = X[::-1]
    optimizer.tell(shuffled, [bowl(x) for x in shuffled])
    with pytest.raises(RuntimeError, match="call `ask"):
        optimizer.tell(X, np.zeros(len(X)))


def test_worker_processes_change_no_bit():
    alone, shared = (sl.minimize(rastrigin, **PLAIN, rng=1, workers=workers) for workers in (1, 2))
    assert (alone.nfev, alone.x.tobytes()) == (shared.nfev, shared.x.tobytes())


def test_scipy_and_the_command_line_have_the_same_sweeps(tmp_path, capsys):
    plain = sl.minimize(rastrigin, **PLAIN, rng=1)
    options = {"sigma0": 1.0, "integrality": PLAIN["integrality"], "rng": 1}
    adapted = scipy.optimize.minimize(
        rastrigin, PLAIN["x0"], method=sl.scipy_method, bounds=PLAIN["bounds"], options=options
    )
    arguments = ["--x0", "2.6,2.6,2.6,2.6,2.6,2.6", "--sigma0", "1", "--integrality", "0,0,1,1,1,1", "--bounds=-5:5"]
    file = tmp_path / "run.db"
    main(["minimize", "helpers.mixed:rastrigin", *arguments, "--seed", "1", "--store", str(file)])
    capsys.readouterr()
    assert np.isnan(plain.history["generation_best"]).any()
    for other in (adapted, sl.load(file).result):
        assert (other.nfev, other.x.tobytes()) == (plain.nfev, plain.x.tobytes())


def test_a_warm_start_has_sweeps(sweeps):
    rng = np.random.default_rng(1)
    points = np.column_stack([rng.uniform(-4, 4, (200, 2)), rng.integers(-4, 5, (200, 4))])
    x0, sigma0, cov0 = sl.warm_start(points, rastrigin(points))
    options = {name: PLAIN[name] for name in ("integrality", "bounds")}
    assert sl.minimize(rastrigin, x0, sigma0, cov0=cov0, rng=1, **options).fun < 1e-12
    assert sweeps


def test_copies_and_pickles_go_on_in_a_sweep():
    optimizer, _ = in_first_sweep(rastrigin)
    ends = []
    for one in (copy.copy(optimizer), pickle.loads(pickle.dumps(optimizer)), optimizer):
        follow(rastrigin, one)
        ends.append((one.nfev, one.best_x.tobytes()))
    assert len(set(ends)) == 1
