"""Budgets of stored runs: where a run ends does not depend on how often it was interrupted or extended."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import sublevel as sl
from sublevel.run import minimize
from sublevel.run.noisy_answer import LEAST
from sublevel.store import recorder
from sublevel.store.fingerprint import fingerprint


def terraces(x):
    """A function with steps, on which runs end soon."""
    return float(np.sum(np.floor(np.abs(x - 0.3) * 5)))


class InterruptedAt:
    """An objective that is interrupted at one of its calls."""

    def __init__(self, fun, call):
        self.fun, self.call, self.calls = fun, call, 0

    def __call__(self, x):
        self.calls += 1
        if self.calls == self.call:
            raise KeyboardInterrupt
        return self.fun(x)


@pytest.fixture
def kept(monkeypatch):
    """The state is written after every generation."""
    monkeypatch.setattr(recorder, "REPLAY", -1.0)
    monkeypatch.setattr(recorder, "CHEAP", np.inf)


@pytest.fixture
def at_once(monkeypatch):
    """Every value is written when it arrives, and the state only at the end."""
    monkeypatch.setattr(recorder, "WRITING", 1e9)
    monkeypatch.setattr(recorder, "REPLAY", np.inf)
    monkeypatch.setattr(recorder, "SELDOM", np.inf)


SMALL = {"popsize": 8, "restarts": "ipop", "tolx": 0.2, "rng": 1}
"""Runs that end soon, with larger and larger samples."""


@pytest.mark.parametrize("noise", [False, True], ids=["exact", "noisy"])
@pytest.mark.parametrize("moment", [3, 300, 430])
def test_the_default_budget_of_a_resumed_run_is_that_of_the_original_one(noise, moment, kept, tmp_path, monkeypatch):
    """The default depends on the sample size, which restarts increase, and on constants of a version."""
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    monkeypatch.setattr(minimize, "EVALUATIONS_PER_DIMENSION", 500)
    monkeypatch.setattr(minimize, "GENERATIONS", 10)
    given = SMALL | {"noise": noise}
    expected = sl.minimize(terraces, np.ones(1), 0.5, store=whole, **given)
    assert expected.reasons == {"maxfevals": 500.0}
    assert expected.history.to_frame()["popsize"].max() >= 64
    sl.minimize(InterruptedAt(terraces, moment), np.ones(1), 0.5, store=file, **given)
    monkeypatch.setattr(minimize, "GENERATIONS", 20)
    monkeypatch.setattr(minimize, "EVALUATIONS_PER_DIMENSION", 1000)
    assert sl.resume(file, terraces, check=False).nfev == expected.nfev
    assert fingerprint(file) == fingerprint(whole)
    assert sl.load(file).settings.limits == [500.0, None, None, None]


@pytest.mark.parametrize("noise", [False, True], ids=["exact", "noisy"])
def test_a_run_that_is_resumed_after_restarts_needs_no_room_for_a_large_sample(noise, kept, tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    given = SMALL | {"noise": noise, "restarts": sl.IPOP(9, 40.0), "maxfevals": 250}
    expected = sl.minimize(terraces, np.ones(1), 0.5, store=whole, **given)
    sl.minimize(InterruptedAt(terraces, expected.nfev - 2), np.ones(1), 0.5, store=file, **given)
    assert sl.resume(file, terraces, check=False).nfev == expected.nfev
    assert fingerprint(file) == fingerprint(whole)


@pytest.mark.parametrize("given", [{}, {"restarts": "ipop"}, {"surrogate": True}], ids=["plain", "restarts", "model"])
def test_a_history_resumed_from_before_the_first_checkpoint_has_the_sample_size(given, tmp_path):
    file = tmp_path / "run.db"
    expected = sl.minimize(terraces, np.ones(2), 0.5, popsize=7, rng=1, maxfevals=60, **given).history
    sl.minimize(InterruptedAt(terraces, 5), np.ones(2), 0.5, popsize=7, rng=1, maxfevals=60, store=file, **given)
    assert sl.load(file).result.history.runs[0].popsize == 7
    found = sl.resume(file, terraces).history
    assert found.runs == expected.runs
    for name in ("nfev", "popsize"):
        np.testing.assert_array_equal(found.to_frame()[name], expected.to_frame()[name])


KINDS = {
    "plain": {},
    "batches": {"vectorized": True, "popsize": 7},
    "restarts": {"restarts": "bipop", "tolx": 0.2},
    "integers": {"integrality": [True, False], "bounds": [(-9, 9), (-9, 9)], "tolx": 0.3},
    "model": {"surrogate": 2},
    "constraints": {"constraints": {"type": "ineq", "fun": lambda x: 0.8 - x[..., 0]}},
    "noise": {"noise": True},
}
REACHED = {
    "maxfevals": {"maxfevals": 20},
    "maxiter": {"maxiter": 1},
    "maxtime": {"maxtime": 1e-9},
    "ftarget": {"ftarget": 1e9},
}


def rows(x):
    """Terraces at a point (d,) or at points (n, d)."""
    return np.sum(np.floor(np.abs(x - 0.3) * 5), axis=-1)


@pytest.mark.parametrize("limit", REACHED)
@pytest.mark.parametrize("moment", [25, 60])
@pytest.mark.parametrize("kind", KINDS)
def test_no_stored_evaluation_is_forgotten_when_a_limit_is_reached_already(kind, moment, limit, tmp_path, at_once):
    file, whole, given = tmp_path / "run.db", tmp_path / "whole.db", {"rng": 2, "maxfevals": 150} | KINDS[kind]
    sl.minimize(rows, np.ones(2), 0.5, store=whole, **given)
    first = InterruptedAt(rows, moment if kind != "batches" else 2 + moment // 7)
    before = sl.minimize(first, np.ones(2), 0.5, store=file, **given)
    again = InterruptedAt(rows, None)
    result = sl.resume(file, again, constraints=given.get("constraints"), check=False, **REACHED[limit])
    assert result.nfev == before.nfev + again.calls
    assert list(result.reasons) == [limit]
    is_noisy = kind == "noise"  # then the answer was evaluated, which leaves fewer evaluations for the search
    assert is_noisy or again.calls == 0
    assert is_noisy or (result.fun, result.x.tolist()) == (before.fun, before.x.tolist())
    sl.resume(file, rows, constraints=given.get("constraints"), check=False)
    assert is_noisy or fingerprint(file) == fingerprint(whole)
    found, expected = sl.load(file).points, sl.load(whole).points
    assert len(found) >= 0.9 * len(expected)
    np.testing.assert_array_equal(found, expected[: len(found)])


SMALLEST = dict.fromkeys(KINDS, 7) | {"model": 1, "noise": 7 + LEAST}
"""The smallest budget that is not refused, with 7 points per generation."""


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_with_a_small_budget_is_the_beginning_of_one_with_a_larger_budget(kind, tmp_path, at_once):
    given = {"popsize": 7} | KINDS[kind]
    again = {"constraints": given.get("constraints"), "check": False}
    sl.minimize(rows, np.ones(2), 0.5, rng=2, maxfevals=60, store=tmp_path / "whole.db", **given)
    expected = sl.load(tmp_path / "whole.db").points
    for budget in range(1, 22):
        file = tmp_path / f"{budget}.db"
        if budget < SMALLEST[kind]:
            with pytest.raises(ValueError, match="`maxfevals` must allow one generation"):
                sl.minimize(rows, np.ones(2), 0.5, rng=2, maxfevals=budget, **given)
            continue
        small = sl.minimize(rows, np.ones(2), 0.5, rng=2, maxfevals=budget, store=file, **given)
        found = sl.load(file).points
        assert small.nfev <= budget
        np.testing.assert_array_equal(found, expected[: len(found)])
        if kind != "noise":  # whose answer is evaluated, too
            assert small.nfev == len(found)
            sl.resume(file, rows, maxfevals=60, **again)
            assert sl.load(file).points.tolist() == expected.tolist()
            assert fingerprint(file) == fingerprint(tmp_path / "whole.db")


def test_all_runs_are_loaded_if_the_last_ones_began_after_the_last_stored_state(at_once, tmp_path):
    """Why a run ended is stored with the state; until then it is not known."""
    file = tmp_path / "run.db"
    cut = sl.minimize(InterruptedAt(terraces, 300), np.ones(1), 0.5, store=file, **SMALL)
    loaded = sl.load(file).result
    assert cut.restarts > 1
    assert [(run.rows, run.popsize, run.fun) for run in loaded.history.runs] == [
        (run.rows, run.popsize, run.fun) for run in cut.history.runs
    ]
    assert [run.reasons for run in loaded.history.runs] == [{}] * cut.restarts + [cut.reasons]
    assert loaded.history.best_run == cut.history.best_run


def test_the_last_distribution_has_the_evaluations_of_its_generation(tmp_path):
    """Those of a part of a generation come later. After many evaluations, not every generation has a snapshot."""
    file = tmp_path / "run.db"
    settings = {"popsize": 4, "rng": 1, "maxfevals": 607}
    result = sl.minimize(lambda x: float(x[0] ** 2 + 1e8 * x[1] ** 2), [1.0, 2.0], 0.5, store=file, **settings)
    assert result.nfev > result.history["nfev"][-1]
    assert result.history.trace().nfev[-1] == result.history["nfev"][-1]
    assert sl.load(file).result.history.trace().nfev.tolist() == result.history.trace().nfev.tolist()


INTERRUPTED_IMPORT = '''
import sys
from importlib.abc import MetaPathFinder

import sublevel as sl


class Interrupting(MetaPathFinder):
    """Ctrl-C while SciPy is imported, once."""

    def find_spec(self, name, path, target=None):
        if name == "scipy.optimize":
            sys.meta_path.remove(self)
            raise KeyboardInterrupt


def fun(x):
    return (x[0] - 0.3) ** 2 + 9 * x[1] ** 2


given = {"rng": 1, "maxfevals": 100}
assert "scipy.optimize" not in sys.modules
sys.meta_path.insert(0, Interrupting())
first = sl.minimize(fun, [1.0, 1.0], 0.5, store="run.db", **given)
assert list(first.reasons) == ["interrupted"], first
assert list(sl.load("run.db").result.reasons) == ["interrupted"]
found, expected = sl.resume("run.db", fun), sl.minimize(fun, [1.0, 1.0], 0.5, **given)
assert (found.fun, found.nfev, list(found.reasons)) == (expected.fun, 100, ["maxfevals"])
'''


def test_an_interrupt_while_scipy_is_imported_ends_a_run_like_any_other(tmp_path):
    subprocess.run([sys.executable, "-c", INTERRUPTED_IMPORT], cwd=tmp_path, check=True)


def test_scipy_is_imported_before_the_first_evaluation(tmp_path):
    """At the end of a run, an interrupt of this import could not be told from one of what follows."""
    code = "import sys, sublevel as sl; sl.minimize(lambda x: 0.0 * len(sys.modules['scipy.optimize'].__all__), [1], 1)"
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True)


@pytest.mark.parametrize("call", [22, 24, 31])
def test_a_noisy_run_that_is_cut_in_its_re_evaluations_ends_for_the_same_reason(call, tmp_path):
    """They count towards a larger budget, but not towards the one that ended the search."""
    file, given = tmp_path / "run.db", {"noise": True, "popsize": 7, "maxiter": 3, "maxfevals": 44, "rng": 1}
    rng = np.random.default_rng(1)
    noise = rng.standard_normal(100)

    def noisy(x):
        return float(x @ x + noise[int(abs(x[0]) * 1e12) % 100])

    whole = sl.minimize(noisy, np.ones(2), 0.5, **given)
    assert whole.reasons == {"maxiter": 3}
    sl.minimize(InterruptedAt(noisy, call), np.ones(2), 0.5, **given, store=file)
    resumed = sl.resume(file, noisy)
    assert (resumed.reasons, resumed.nfev, resumed.fun) == (whole.reasons, whole.nfev, whole.fun)
