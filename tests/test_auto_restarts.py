"""Restarts by "auto": BIPOP, and after each run changes of single variables of the best point."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest
from scipy.optimize import LinearConstraint

import sublevel as sl
from helpers.functions import rastrigin
from sublevel.run import sweep as sweep_module
from sublevel.run.restarts import FinishedRuns, Run
from sublevel.run.restarts.auto import CLOSE
from sublevel.run.restarts.protocol import SHARE
from sublevel.run.sweep import LENGTHS

SEEDS = range(8)
START = {"x0": np.full(5, 3.0), "sigma0": 2.0, "vectorized": True}


def turned(d, seed=3):
    """Rastrigin's function, turned: no variable has a minimum of its own."""
    rotation = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, d)))[0]
    return lambda X: rastrigin(X @ rotation)


def evaluations(fun, restarts, **more):
    """Evaluations to 1e-8 with each seed."""
    budget = {"maxfevals": 100_000, "ftarget": 1e-8, **START, **more}
    return [sl.minimize(fun, **budget, restarts=restarts, rng=seed).nfev for seed in SEEDS]


def runs_of(fun, maxfevals=20_000, **more):
    """An optimizer after so many evaluations of points X (n, d), and which of its generations were changes."""
    optimizer, changes = sl.Optimizer(np.full(3, 3.0), 2.0, restarts="auto", rng=1, **more), []
    while optimizer.nfev < maxfevals and not optimizer.stop():
        X = optimizer.ask()
        changes.append((optimizer.restarts, optimizer.is_sweeping))
        optimizer.tell(X, fun(X))
    return optimizer, changes


def finished(*runs, best_x=None, untried=0):
    """Runs that ended with the evaluations that they took, the best point and its untried changes."""
    every = FinishedRuns()
    for run, nfev in runs:
        every.append(run, nfev, best_x, untried)
    return every


# Which runs


@pytest.mark.parametrize("nfev", [10, 400, 10_000])
def test_changes_follow_a_run_and_take_a_share_of_its_evaluations(nfev):
    x = np.array([1.0, 2.0])
    run = sl.AutoRestarts().next_run(finished((Run(8), nfev), best_x=x, untried=320), 8, np.random.default_rng(1))
    assert run.tries_changes
    assert (run.popsize, run.sigma_factor, run.spares_leaders) == (8, CLOSE, True)
    assert run.x0 is x
    assert run.maxfevals == min(max(int(SHARE * nfev), 8), 320)


@pytest.mark.parametrize("case", ["no best point", "all tried", "just tried"])
def test_otherwise_the_runs_are_those_of_bipop(case):
    x, tried = np.ones(2), Run(8, CLOSE, 100.0, True, tries_changes=True)
    runs = {
        "no best point": finished((Run(8), 500), (Run(16), 2000), untried=5),
        "all tried": finished((Run(8), 500), (Run(16), 2000), best_x=x),
        "just tried": finished((Run(8), 500), (Run(16), 2000), (tried, 700), best_x=x, untried=5),
    }[case]
    found, expected = (
        strategy.next_run(runs, 8, np.random.default_rng(4))
        for strategy in (sl.AutoRestarts(), sl.BIPOP())
    )  # fmt: skip
    assert (
        found == expected == sl.BIPOP().next_run(finished((Run(8), 500), (Run(16), 2000)), 8, np.random.default_rng(4))
    )
    assert found.spares_leaders  # the small ones' turn, whatever the changes took


def test_each_run_is_followed_by_changes_until_all_have_been_tried():
    optimizer, changes = runs_of(turned(3))
    asked = [optimizer.finished[number][0] for number in range(len(optimizer.finished))]
    with_changes = {number for number, run in enumerate(asked) if run.tries_changes}
    assert len(with_changes) >= 3
    assert not any(a in with_changes and a + 1 in with_changes for a in range(len(asked)))
    assert {run for run, is_change in changes if is_change} - {len(asked)} == with_changes
    tried = optimizer.run_state.best.tried
    assert 0 <= tried <= optimizer.changes.total == 3 * LENGTHS


def test_no_change_is_tried_twice():
    """Changes of a best point go on where those after an earlier run ended."""
    optimizer, seen = sl.Optimizer(np.full(3, 3.0), 2.0, restarts="auto", rng=2), []
    while optimizer.nfev < 30_000:
        X = optimizer.ask()
        seen += [x.tobytes() for x in X if optimizer.is_sweeping]
        optimizer.tell(X, turned(3)(X))
    assert len(seen) > 1000
    assert len(set(seen)) > 0.98 * len(seen)  # all but the points that fill the last generation


# What they find


def schwefel(X):
    """Schwefel's function of separate variables, whose best minima are far from each other."""
    beyond = 100 * np.maximum(np.abs(X) - 5, 0) ** 2
    return np.sum(418.9828872724339 - 100 * X * np.sin(np.sqrt(np.abs(100 * X))) + beyond, axis=1)


def test_separate_variables_are_found_one_after_the_other():
    ours, theirs = (evaluations(schwefel, name, x0=np.zeros(5), ftarget=1e-4) for name in ("auto", "bipop"))
    assert max(ours) < 10_000
    assert np.median(ours) < np.median(theirs) / 3


def test_they_cost_little_where_variables_are_not_separate():
    ours, theirs = (evaluations(turned(5), restarts) for restarts in ("auto", "bipop"))
    assert np.median(ours) < 2.0 * np.median(theirs)
    assert np.median(ours) > np.median(evaluations(rastrigin, "auto"))  # the changes depend on the axes


def test_a_first_run_that_reaches_its_target_is_unchanged():
    one, other = (
        sl.minimize(lambda x: x @ x, np.ones(4), 0.5, restarts=name, rng=1, ftarget=1e-9) for name in ("auto", "bipop")
    )
    assert one.nfev == other.nfev
    assert one.x.tobytes() == other.x.tobytes()


def test_a_search_goes_on_around_a_better_point():
    optimizer, count = sl.Optimizer(np.full(3, 3.0), 2.0, restarts="auto", rng=1), 0
    while optimizer.nfev < 10_000:
        X = optimizer.ask()
        was, level = optimizer.is_sweeping, optimizer.best_fun
        optimizer.tell(X, rastrigin(X))
        if was and not optimizer.is_sweeping and optimizer.run_state.sweep.has_succeeded:
            count += 1
            assert optimizer.best_fun <= level
            assert np.allclose(optimizer.mean, optimizer.best_x, rtol=1e-12)
            assert np.allclose(optimizer.deviations, 2.0 * CLOSE)
            assert not optimizer.stop()
    assert count >= 1


def test_runs_whose_changes_are_no_better_say_so():
    optimizer, _ = runs_of(turned(3))
    endings = [next(iter(optimizer.endings[number])) for number in range(len(optimizer.finished))]
    asked = [optimizer.finished[number][0] for number in range(len(optimizer.finished))]
    assert "unchanged" in endings
    assert all(asked[number].tries_changes for number, name in enumerate(endings) if name == "unchanged")
    result = sl.minimize(lambda x: x @ x, np.ones(2), 0.5, restarts=sl.AutoRestarts(0), rng=1)
    assert list(result.reasons) == ["unchanged"]
    assert result.success
    assert "changes of single variables" in result.message


# With everything else


def points_of_two_runs(fun):
    """The points of the first run, which ends when it is narrow, and of the changes that follow with their search."""
    optimizer, points = sl.Optimizer(np.full(3, 3.0), 2.0, restarts="auto", rng=1, tolx=1e-3), []
    while optimizer.restarts < 2:
        points.append(optimizer.ask())
        if optimizer.restarts < 2:
            optimizer.tell(points[-1], fun(points[-1]))
    return np.concatenate(points)


@pytest.mark.parametrize("transform", [np.exp, np.cbrt, lambda f: 3 * f + 7], ids=["exp", "cbrt", "line"])
def test_only_the_order_of_values_counts(transform):
    plain, other = (points_of_two_runs(fun) for fun in (rastrigin, lambda X: transform(rastrigin(X))))
    assert plain.tobytes() == other.tobytes()
    assert plain.tobytes() != points_of_two_runs(lambda X: np.abs(rastrigin(X) - 9.0)).tobytes()


def test_the_path_does_not_depend_on_the_units_of_a_variable():
    def points(scale):
        optimizer, found = sl.Optimizer(3 * scale, 2.0 * scale, restarts="auto", rng=3), []
        while optimizer.nfev < 3000:
            found.append(optimizer.ask() / scale)
            optimizer.tell(optimizer.ask(), rastrigin(found[-1]))
        return np.concatenate(found)

    plain, scaled = points(np.ones(3)), points(np.array([1.0, 16.0, 0.25]))
    assert plain.tobytes() == scaled.tobytes()


BOUNDED = {
    "box": {"bounds": (-1.5, 5)},
    "log": {"bounds": (0.01, 10), "log_scaled": [True, False, False]},
    "fixed": {"bounds": [(3, 3), (0, None), (None, 4)]},
    "integer": {"bounds": (-4, 4), "integrality": [1, 0, 0]},
    "half-space": {"constraints": LinearConstraint([[1, 1, 0]], -np.inf, 6.5)},
}


@pytest.mark.parametrize("case", BOUNDED)
def test_points_are_allowed_and_differ_in_one_variable(case):
    optimizer, count = sl.Optimizer(np.full(3, 3.0), 1.0, restarts="auto", rng=1, **BOUNDED[case]), 0
    while optimizer.nfev < 6000 and not optimizer.stop():
        best, X = optimizer.best_x, optimizer.ask()
        if optimizer.is_sweeping:
            count += len(X)
            assert (np.count_nonzero(best != X, axis=1) <= 1).all()
        if case == "half-space":
            assert (X[:, 0] + X[:, 1] <= 6.5).all()
        else:
            low, high = np.array([(-np.inf if a is None else a, np.inf if b is None else b) for a, b in (
                [BOUNDED[case]["bounds"]] * 3 if isinstance(BOUNDED[case]["bounds"], tuple) else BOUNDED[case]["bounds"]
            )]).T  # fmt: skip
            assert ((low <= X) & (high >= X)).all()
        optimizer.tell(X, rastrigin(X))
    assert count > 50


@pytest.mark.parametrize("more", [{"noise": True}, {"surrogate": True}], ids=["noise", "surrogate"])
def test_nothing_is_changed_where_a_value_decides_nothing(more):
    def fun(x):
        return float(rastrigin(x))

    one, other = (
        sl.minimize(fun, np.full(3, 3.0), 2.0, restarts=name, rng=1, maxfevals=1500, **more)
        for name in ("auto", "bipop")
    )
    assert one.x.tobytes() == other.x.tobytes()
    assert one.restarts == other.restarts


def test_sharded_runs_try_no_changes():
    one, other = (
        sl.minimize_sharded(rastrigin, np.full(2, 3.0), 2.0, popsize=40, restarts=name, rng=1, maxfevals=12_000)
        for name in ("auto", "bipop")
    )
    assert one.x.tobytes() == other.x.tobytes()
    assert one.restarts == other.restarts >= 1


def test_bits_try_no_changes():
    one, other = (
        sl.minimize(lambda x: float(np.sum(x)), np.full(6, 0.5), method="pbil", restarts=name, rng=1, maxfevals=2000)
        for name in ("auto", "bipop")
    )
    assert one.x.tobytes() == other.x.tobytes()


@pytest.mark.parametrize("again", [copy.deepcopy, lambda opt: pickle.loads(pickle.dumps(opt))], ids=["copy", "pickle"])
def test_a_copy_goes_on_as_the_original(again):
    one = sl.Optimizer(np.full(3, 3.0), 2.0, restarts="auto", rng=1)
    while not (one.is_sweeping and one.restarts > 1):
        X = one.ask()
        one.tell(X, rastrigin(X))
    other = again(one)
    for optimizer in (one, other):
        for _ in range(300):
            X = optimizer.ask()
            optimizer.tell(X, rastrigin(X))
    assert one.best_x.tobytes() == other.best_x.tobytes()
    assert one.mean.tobytes() == other.mean.tobytes()


def value(x):
    return float(rastrigin(x))


def test_a_stored_run_goes_on_from_any_budget(tmp_path):
    """As it would have gone on: after changes, among them, and where a run with them begins and ends."""
    start, ends = {"x0": np.full(3, 3.0), "sigma0": 2.0, "restarts": "auto", "rng": 1}, []
    whole = sl.minimize(value, **start, maxfevals=6000, callback=lambda now: ends.append((now.restarts, now.nfev)))
    last = dict(ends)
    assert len(last) >= 5
    for number, first in enumerate([400, *(nfev + more for nfev in list(last.values())[:4] for more in (0, 1, 20))]):
        file = tmp_path / f"{number}.db"
        sl.minimize(value, **start, maxfevals=first, store=file)
        again = sl.resume(file, value, maxfevals=6000)
        assert again.x.tobytes() == whole.x.tobytes()
        assert (again.nfev, again.nit, again.restarts) == (whole.nfev, whole.nit, whole.restarts)
        assert sl.load(file).result.restarts == whole.restarts


# When the same minimum keeps coming back


def bent(x):
    """Rosenbrock's function, which has one minimum."""
    return float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))


def two_wells(x):
    """Two wells as wide as each other, of which the second one is deeper."""
    return float(min(np.sum((x - 2.0) ** 2), np.sum((x + 2.0) ** 2) - 1.0))


def starts(*signs):
    """Starts in the first well where the sign is 1, in the second where it is −1, over and over."""
    following = itertools.cycle(signs)
    return lambda rng: next(following) * rng.uniform(1.5, 2.5, 3)


def test_restarts_end_when_the_same_minimum_keeps_coming_back():
    result = sl.minimize(bent, np.full(2, -1.0), 0.5, restarts="auto", rng=1)
    assert list(result.reasons) == ["recurring"]
    assert result.success
    assert result.fun < 1e-14
    assert "5 runs ended at the same minimum" in result.message
    ended = [ending for ending in result.history.runs if "unchanged" not in ending.reasons]
    assert len(ended) == 5


@pytest.mark.parametrize("tolerance", [{"tolx": 1e-2}, {"tolfun": 1e-4}], ids=["tolx", "tolfun"])
def test_the_same_minimum_is_known_at_the_precision_of_the_runs(tolerance, monkeypatch):
    options = {"restarts": "auto", "rng": 1, "maxfevals": 6000, **tolerance}
    assert list(sl.minimize(bent, np.full(2, -1.0), 0.5, **options).reasons) == ["recurring"]
    monkeypatch.setattr(sweep_module, "RESOLVED", 0.0)
    assert list(sl.minimize(bent, np.full(2, -1.0), 0.5, **options).reasons) == ["maxfevals"]


def test_a_search_goes_on_around_a_better_point_at_the_same_minimum():
    """Runs that end early differ by more than a change, and some changes are better: no run ends as if none were."""
    improved = 0
    for seed in range(10):
        optimizer = sl.Optimizer(np.array([1.0, 2.0, 0.5]), 0.5, restarts="auto", rng=seed, tolx=0.2)
        while optimizer.nfev < 1500 and not optimizer.stop():
            X, before = optimizer.ask(), optimizer.is_sweeping
            optimizer.tell(X, np.abs(X).sum(axis=1))
            state = optimizer.run_state
            if before and state.sweep.has_succeeded and state.standing.generations == 0:
                improved += state.best.tried > 0
                began = optimizer.restarts
                optimizer.ask()
                assert optimizer.restarts == began
                assert not optimizer.is_sweeping
                optimizer.tell(optimizer._asked, np.abs(optimizer._asked).sum(axis=1))
    assert improved


@pytest.mark.parametrize("same", [2, 3, 5])
def test_so_many_runs_have_to_end_there(same):
    optimizer = sl.Optimizer(np.full(2, -1.0), 0.5, restarts=sl.AutoRestarts(same=same), rng=1)
    while not optimizer.stop():
        X = optimizer.ask()
        optimizer.tell(X, [bent(x) for x in X])
    assert optimizer.stop() == {"recurring": same}
    asked = [optimizer.finished[number][0] for number in range(len(optimizer.finished))]
    assert sum(not run.tries_changes for run in asked) == same - 1


@pytest.mark.parametrize(("signs", "ends"), [((1, -1), False), ((-1,), True), ((1, 1, 1, 1, -1), False)])
def test_they_go_on_while_runs_end_elsewhere(signs, ends):
    """Even where the best point of all has been known for long."""
    result = sl.minimize(two_wells, starts(*signs), 0.1, restarts="auto", rng=1, maxfevals=20_000)
    assert list(result.reasons) == ["recurring" if ends else "maxfevals"]
    assert abs(result.fun + 1) < 1e-9
    assert any("abandoned" in run.reasons for run in result.history.runs) is not ends


def test_other_strategies_go_on():
    result = sl.minimize(bent, np.full(2, -1.0), 0.5, restarts="bipop", rng=1, maxfevals=30_000)
    assert list(result.reasons) == ["maxfevals"]


@pytest.mark.parametrize("wrong", [1, 2.5, -3])
def test_a_number_of_runs_is_checked(wrong):
    with pytest.raises(ValueError, match="`same`"):
        sl.AutoRestarts(same=wrong)


def test_the_end_does_not_depend_on_where_the_file_was_left(tmp_path):
    start = {"x0": np.full(2, -1.0), "sigma0": 0.5, "restarts": "auto", "rng": 1}
    whole = sl.minimize(bent, **start)
    for number, share in enumerate([0.3, 0.6, 0.95]):
        file = tmp_path / f"{number}.db"
        sl.minimize(bent, **start, maxfevals=int(share * whole.nfev), store=file)
        again = sl.resume(file, bent, maxfevals=10**6)
        assert (again.nfev, again.reasons, again.message) == (whole.nfev, whole.reasons, whole.message)
