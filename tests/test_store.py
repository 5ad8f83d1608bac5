"""Stored runs: a run that was killed goes on as if nothing had happened, with no evaluation lost and none counted
twice.
"""

from __future__ import annotations

import csv
import itertools
import json
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import LinearConstraint, NonlinearConstraint

import sublevel as sl
from sublevel.cli.run_status import read_status
from sublevel.dashboard import data
from sublevel.dashboard.follow import Follower
from sublevel.engine.families import FAMILIES
from sublevel.engine.transforms import Transform
from sublevel.evaluation.failures import EvaluationFailed
from sublevel.run.history import Generations, History
from sublevel.run.restarts import STRATEGIES, Restarts, Run
from sublevel.store import environment, export, pending, reader, recorder, samples, serialize
from sublevel.store.errors import store_error
from sublevel.store.file import File, with_checksum
from sublevel.store.fingerprint import fingerprint

METHODS = [
    f"{lra}{family}{name}" for lra in ("", "lra-") for family in FAMILIES for name in ("cma", "ngd", "rank-mu", "xnes")
]
BOX = {"bounds": [(-1.0, 3.0), (0.5, 20.0), (2.0, 2.0), (None, 4.0)], "log_scaled": [False, True, False, False]}
BOUNDS = {"free": {}, "bounded": BOX}
RESTARTS = [None, *STRATEGIES]
GRID = [*itertools.product(METHODS, BOUNDS, RESTARTS), *itertools.product(["pbil"], ["free"], RESTARTS)]


def terraces(x):
    """A function with steps: values are often equal, but not all of a sample."""
    return float(np.floor(4 * np.sum((x - 0.3) ** 2)) + np.floor(x[0] * 7))


def smooth(x):
    """A function that takes a while."""
    return float(np.sum((x - 0.3) ** 2))


def cliff(x):
    """A function on which runs end soon: restarts come early."""
    return terraces(x) if x[0] > 1.5 else 0.0


def objective(restarts):
    """What a case of the grid minimises."""
    return smooth if restarts is None else cliff


def options(method, bounds, restarts, **more):
    """What `minimize` needs for a case of the grid."""
    x0, sigma0 = (np.full(12, 0.5), None) if method == "pbil" else (np.array([1.0, 3.0, 2.0, 1.0]), 0.4)
    return {
        "x0": x0,
        "sigma0": sigma0,
        "method": method,
        "restarts": restarts,
        "rng": 7,
        "maxfevals": 640,
        **BOUNDS[bounds],
        **more,
    }


class Counted:
    """An objective that counts its calls, and does something before one of them."""

    def __init__(self, fun=terraces, before=lambda calls: None):
        self.fun, self.before, self.calls = fun, before, 0

    def __call__(self, x):
        self.before(self.calls)
        self.calls += 1
        return self.fun(x)


def copied(file, target):
    """The file as a killed process would leave it at this moment."""
    for end in ("", "-wal"):
        if (source := file.with_name(file.name + end)).exists():
            shutil.copyfile(source, target.with_name(target.name + end))
    return target


@pytest.fixture
def folder(tmp_path):
    """A directory in memory if there is one: thousands of files are written, and nobody waits for a disk."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir=memory) as name:
        yield Path(name)


@pytest.fixture
def at_once(monkeypatch):
    """Every value is written when it arrives, however fast the objective is."""
    monkeypatch.setattr(recorder, "WRITING", 1e9)


def keep_state(monkeypatch, always):
    """The state is kept after every generation, or only in the beginning and in the end."""
    monkeypatch.setattr(recorder, "REPLAY", -1.0 if always else np.inf)
    monkeypatch.setattr(recorder, "SELDOM", np.inf)
    monkeypatch.setattr(recorder, "CHEAP", np.inf if always else 1.0)


def check_resumes(tmp_path, case, moments):
    """A run that is killed before its k-th evaluation and resumed ends as the run itself, for all k."""
    file, copies = tmp_path / "run.db", {}

    def before(calls):
        if calls in moments:
            copies[calls] = copied(file, tmp_path / f"{calls}.db")

    fun = Counted(objective(case[2]), before)
    result = sl.minimize(fun, **options(*case), store=file)
    expected = fingerprint(file)
    assert copies.keys() == moments
    for calls, copy in copies.items():
        again = Counted(fun.fun)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(recorder, "WRITING", 0.0)
            patched.setattr(recorder, "SAVINGS", 0.0)
            resumed = sl.resume(copy, again)
        assert again.calls == fun.calls - calls + (calls > 0)  # one stored point is evaluated again
        assert fingerprint(copy) == expected
        assert (resumed.nfev, resumed.nit, resumed.restarts, resumed.reasons) == (
            result.nfev,
            result.nit,
            result.restarts,
            result.reasons,
        )
        assert resumed.x.tobytes() == result.x.tobytes()
        assert resumed.history["deviation"].tobytes() == result.history["deviation"].tobytes()
        assert resumed.diagnosis == result.diagnosis
        copy.unlink()
    return result


FEW = [
    ("cma", "free", None),
    ("lra-cma", "bounded", "bipop"),
    ("xnes", "bounded", "ipop"),
    ("cma", "free", "auto"),
    ("sep-rank-mu", "free", "bipop"),
    ("lra-iso-ngd", "bounded", "ipop"),
    ("pbil", "free", "bipop"),
]


@pytest.mark.parametrize("always", [True, False], ids=["kept", "replayed"])
@pytest.mark.parametrize("case", FEW, ids=lambda case: "-".join(map(str, case)))
def test_a_run_goes_on_from_any_evaluation(case, always, folder, monkeypatch, at_once):
    keep_state(monkeypatch, always)
    result = check_resumes(folder, case, {0, 1, 9, 111, 307, 499})
    assert result.restarts > 0 or case[2] is None


@pytest.mark.slow
@pytest.mark.parametrize("case", GRID, ids=lambda case: "-".join(map(str, case)))
def test_a_run_goes_on_from_each_of_its_first_500_evaluations(case, folder, monkeypatch, at_once):
    for always, moments in ((True, range(500)), (False, range(0, 500, 25))):
        keep_state(monkeypatch, always)
        (place := folder / str(always)).mkdir()
        check_resumes(place, case, set(moments))


def test_storing_changes_nothing(tmp_path):
    settings = options("cma", "bounded", "bipop")
    stored, plain = sl.minimize(terraces, **settings, store=tmp_path / "run.db"), sl.minimize(terraces, **settings)
    assert stored.x.tobytes() == plain.x.tobytes()
    assert stored.history.arrays().keys() == plain.history.arrays().keys()
    for name, column in plain.history.arrays().items():
        assert stored.history[name].tobytes() == column.tobytes()


def test_a_fingerprint_sees_one_bit(tmp_path):
    files = [tmp_path / name for name in ("a.db", "b.db", "c.db")]
    for file, value in zip(files, (0.0, 0.0, 5e-324), strict=True):
        sl.minimize(
            lambda x, value=value: terraces(x) + value * (x[0] > 0),
            **options("cma", "free", None, maxfevals=40),
            store=file,
        )
    assert fingerprint(files[0]) == fingerprint(files[1])
    sl.minimize(lambda x: np.nextafter(np.sum(x**2), 9), np.ones(3), 0.3, rng=1, maxfevals=14, store=tmp_path / "d.db")
    sl.minimize(lambda x: np.sum(x**2), np.ones(3), 0.3, rng=1, maxfevals=14, store=tmp_path / "e.db")
    assert fingerprint(tmp_path / "d.db") != fingerprint(tmp_path / "e.db")


# What goes wrong


@pytest.mark.parametrize("k", [1, 2, 7, 30, 100])
def test_an_exception_leaves_a_store_that_goes_on(k, tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    sl.minimize(terraces, **options("cma", "free", "ipop"), store=whole)

    def before(calls):
        if calls == k - 1:
            raise ZeroDivisionError("in the objective")

    with pytest.raises(ZeroDivisionError) as caught:
        sl.minimize(Counted(before=before), **options("cma", "free", "ipop"), store=file)
    assert caught.value.sublevel_result.nfev == k - 1
    assert sl.load(file).values.size == k - 1
    again = Counted()
    result = sl.resume(file, again)
    assert again.calls == result.nfev - (k - 1) + (k > 1)  # one stored point is evaluated again
    assert fingerprint(file) == fingerprint(whole)


def test_ctrl_c_leaves_a_store_that_goes_on(tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    sl.minimize(terraces, **options("cma", "free", None), store=whole)

    def before(calls):
        if calls == 77:
            raise KeyboardInterrupt

    assert list(sl.minimize(Counted(before=before), **options("cma", "free", None), store=file).reasons) == [
        "interrupted"
    ]
    assert list(sl.load(file).result.reasons) == ["interrupted"]
    sl.resume(file, terraces)
    assert fingerprint(file) == fingerprint(whole)


def test_values_of_all_kinds_come_back_as_they_were(tmp_path, at_once):
    file, values = tmp_path / "run.db", itertools.cycle([np.nan, np.inf, -0.0, 0.0, 5e-324, 1e308, -1e308, 3.5])
    sl.minimize(lambda x: next(values), np.ones(3), 0.3, rng=1, popsize=8, maxfevals=24, evaluate_x0=False, store=file)
    expected = [np.nan, np.inf, -0.0, 0.0, 5e-324, 1e308, -1e308, 3.5] * 3
    assert sl.load(file).values.tobytes() == np.array(expected).tobytes()


def test_a_second_driver_is_refused_at_once_and_readers_go_on(tmp_path):
    file, seen = tmp_path / "run.db", []

    def before(calls):
        if calls == 40:
            with pytest.raises(sl.StoreError, match="in use by another process"):
                sl.resume(file, terraces)
            code = f"import sublevel as sl; print(sl.load({str(file)!r}).values.size)"
            seen.append(
                int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)
            )

    sl.minimize(Counted(before=before), **options("cma", "free", None), store=file)
    assert 0 < seen[0] <= 40


def test_a_file_that_is_there_is_not_touched(tmp_path):
    file = tmp_path / "run.db"
    file.write_text("precious")
    with pytest.raises(sl.StoreError, match="exists already"):
        sl.minimize(terraces, **options("cma", "free", None), store=file)
    assert file.read_text() == "precious"
    assert os.listdir(tmp_path) == ["run.db"]


def test_a_link_is_not_followed(tmp_path):
    (tmp_path / "run.db").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(sl.StoreError, match="exists already"):
        sl.minimize(terraces, **options("cma", "free", None), store=tmp_path / "run.db")
    assert not (tmp_path / "elsewhere").exists()


def test_a_run_that_is_over_is_one_file(tmp_path):
    sl.minimize(terraces, **options("cma", "free", None), store=tmp_path / "run.db")
    assert os.listdir(tmp_path) == ["run.db"]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [("nosuch/run.db", "cannot write"), ("", "exists already"), (3, "`store` must be the name of a file")],
    ids=["directory", "folder", "number"],
)
def test_where_no_file_can_be(wrong, words, tmp_path):
    with pytest.raises((sl.StoreError, TypeError), match=words):
        sl.minimize(
            terraces, **options("cma", "free", None), store=tmp_path / wrong if isinstance(wrong, str) else wrong
        )


def full_disk(self, changes, sync):
    """What writing does when there is no room."""
    with self.translate_errors():
        raise sqlite3.OperationalError("database or disk is full")


def test_a_full_disk_ends_the_run_with_its_result(tmp_path, monkeypatch, at_once):
    def before(calls):
        if calls == 50:
            monkeypatch.setattr(File, "write", full_disk)

    with pytest.raises(sl.StoreError, match="disk is full") as caught:
        sl.minimize(Counted(before=before), **options("cma", "free", None), store=tmp_path / "run.db")
    assert caught.value.sublevel_result.nfev >= 50


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs the list of open files of a process")
def test_a_resume_that_cannot_write_leaves_no_file_open(tmp_path, monkeypatch):
    file = tmp_path / "run.db"
    sl.minimize(terraces, **options("cma", "free", None), store=file)
    monkeypatch.setattr(File, "write", full_disk)
    threads = threading.active_count()
    with pytest.raises(sl.StoreError, match="disk is full"):
        sl.resume(file, terraces, maxfevals=1000)
    opened = [os.path.realpath(handle) for handle in Path("/proc/self/fd").iterdir()]
    assert [name for name in opened if name.startswith(str(tmp_path))] == []
    assert threading.active_count() == threads


# What is given again


class Thrice(Restarts):
    """A strategy that draws."""

    def next_run(self, runs, popsize, rng):
        return Run(5 * (len(runs) + 1), float(rng.uniform(0.5, 1.0)), 50.0) if len(runs) < 4 else None

    def __repr__(self):
        return "Thrice()"


def drawn(rng):
    return rng.uniform(-1, 1, 3)


def cut_short(file, moment, fun, *arguments, **settings):
    """A stored run that fails at its evaluation number `moment`."""

    def before(calls):
        if calls == moment:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        sl.minimize(Counted(fun, before), *arguments, **settings, store=file)


@pytest.mark.parametrize("always", [True, False], ids=["kept", "replayed"])
def test_what_cannot_be_stored_is_given_again(always, tmp_path, monkeypatch):
    keep_state(monkeypatch, always)
    again = {"x0": drawn, "method": sl.ngd(c_mean=0.8, c_cov=0.4), "restarts": Thrice()}
    settings = {
        "method": again["method"],
        "restarts": again["restarts"],
        "rng": np.random.Generator(np.random.MT19937(5)),
        "maxfevals": 400,
    }
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    result = sl.minimize(terraces, drawn, 0.3, **settings, store=whole)
    assert result.restarts == 3
    cut_short(file, 137, terraces, drawn, 0.3, **settings | {"rng": np.random.Generator(np.random.MT19937(5))})
    for name in again:
        with pytest.raises(TypeError, match=f"`{name}` must be given again"):
            sl.resume(file, terraces, **{key: part for key, part in again.items() if key != name})
    with pytest.raises(ValueError, match="`method` must be the one that the run was started with"):
        sl.resume(file, terraces, **again | {"method": sl.ngd(c_cov=0.4)})
    with pytest.raises(ValueError, match="`restarts` must be"):
        sl.resume(file, terraces, **again | {"restarts": "ipop"})
    assert sl.load(file).values.size == 137  # whoever only looks needs none of them
    sl.resume(file, terraces, **again)
    assert fingerprint(file) == fingerprint(whole)


def test_arguments_are_given_again(tmp_path):
    file = tmp_path / "run.db"
    sl.minimize(lambda x, a: a * np.sum(x**2), np.ones(2), 0.3, args=(2.0,), maxfevals=60, rng=1, store=file)
    with pytest.raises(TypeError, match="`args` must be given again"):
        sl.resume(file, lambda x, a: a * np.sum(x**2))
    assert sl.resume(file, lambda x, a: a * np.sum(x**2), args=(2.0,), maxfevals=121).nfev == 121


def test_another_way_to_draw_starting_points_is_noticed(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 250, terraces, drawn, 0.3, restarts="ipop", rng=3)
    assert sl.load(file).evaluations.run[-1] > 0
    with pytest.raises(sl.StoreError, match="does not reproduce the stored points"):
        sl.resume(file, terraces, x0=lambda rng: drawn(rng) + 1)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "SFC64", "Philox", "MT19937"])
def test_every_generator_of_numpys_goes_on(kind, tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    settings = {"maxfevals": 200, "restarts": "bipop"}
    sl.minimize(
        terraces, np.ones(3), 0.3, rng=np.random.Generator(getattr(np.random, kind)(3)), store=whole, **settings
    )
    cut_short(file, 111, terraces, np.ones(3), 0.3, rng=np.random.Generator(getattr(np.random, kind)(3)), **settings)
    sl.resume(file, terraces)
    assert fingerprint(file) == fingerprint(whole)


def test_a_memory_of_other_things_than_numbers_is_refused_before_the_first_evaluation(tmp_path):
    class Odd(Transform):
        def init(self, theta, sample_size):
            return "text"

        def __call__(self, tangent, memory, generation, /):
            return tangent, memory

    method = sl.Method("odd", sl.cma().weights, (*sl.cma().transforms, Odd()))
    fun = Counted()
    with pytest.raises(sl.StoreError, match="only numbers can be stored"):
        sl.minimize(fun, np.ones(2), 0.3, method=method, store=tmp_path / "run.db")
    assert fun.calls == 0
    assert os.listdir(tmp_path) == []


# Budgets, batches and workers


def test_a_run_that_ended_goes_on_with_a_larger_budget(tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    sl.minimize(terraces, **options("cma", "free", "bipop"), store=whole)
    assert sl.minimize(terraces, **options("cma", "free", "bipop", maxfevals=100), store=file).nfev == 100
    again = Counted()
    assert sl.resume(file, again).nfev == 100
    assert again.calls == 0
    sl.resume(file, again, maxfevals=640)
    assert fingerprint(file) == fingerprint(whole)


RESULT = ("fun", "nfev", "nit", "restarts", "success", "message")


@pytest.mark.parametrize("always", [True, False], ids=["kept", "replayed"])
@pytest.mark.parametrize("case", FEW, ids=lambda case: "-".join(map(str, case)))
def test_a_budget_that_ended_within_a_generation_can_be_raised(case, always, folder, monkeypatch):
    keep_state(monkeypatch, always)
    fun, file, whole = objective(case[2]), folder / "run.db", folder / "whole.db"
    sl.minimize(fun, **options(*case), store=whole)
    result, again = sl.minimize(fun, **options(*case, maxfevals=30), store=file), Counted(fun)
    for maxfevals in (30, 31, 33, 62, 185, 187, 409, 640):
        before = result.nfev
        result = sl.resume(file, again, maxfevals=maxfevals, check=False)
        assert result.nfev == maxfevals == again.calls + 30
        loaded = sl.load(file)
        assert loaded.values.size == maxfevals >= before
        assert [loaded.result[name] for name in RESULT] == [result[name] for name in RESULT]
        assert loaded.result.x.tobytes() == result.x.tobytes()
        assert loaded.result.mean.tobytes() == result.mean.tobytes()
    assert fingerprint(file) == fingerprint(whole)


@pytest.mark.parametrize("popsize", [40, 1000])
def test_a_large_generation_of_which_a_part_was_evaluated_is_completed(popsize, tmp_path):
    """Points of large samples are drawn again when they are read."""
    file, whole, given = tmp_path / "run.db", tmp_path / "whole.db", options("cma", "free", None, popsize=popsize)
    sl.minimize(smooth, **given | {"maxfevals": 6 * popsize + 9}, store=whole)
    sl.minimize(smooth, **given | {"maxfevals": 3 * popsize + 5}, store=file)
    assert sl.load(file).points.tobytes() == sl.load(whole).points[: 3 * popsize + 5].tobytes()
    again = Counted(smooth)
    sl.resume(file, again, maxfevals=6 * popsize + 9, check=False)
    assert again.calls == 3 * popsize + 4
    assert fingerprint(file) == fingerprint(whole)


def test_a_smaller_budget_takes_what_is_stored(tmp_path):
    file = tmp_path / "run.db"
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=38), store=file)
    again = Counted()
    assert sl.resume(file, again, maxfevals=36).nfev == 38
    assert again.calls == 0


def test_batches_are_stored_and_go_on(tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"

    def batched(X):
        return np.array([terraces(x) for x in X])

    settings = options("cma", "free", None, vectorized=True)
    sl.minimize(batched, **settings, store=whole)
    with pytest.raises(ZeroDivisionError):
        sl.minimize(Counted(batched, lambda calls: 1 // (calls != 12)), **settings, store=file)
    sl.resume(file, batched)
    assert fingerprint(file) == fingerprint(whole)


def test_other_workers_give_the_same_file(tmp_path):
    from concurrent.futures import ThreadPoolExecutor

    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    sl.minimize(terraces, **options("cma", "free", None), store=whole)
    cut_short(file, 200, terraces, **options("cma", "free", None))
    with ThreadPoolExecutor(3) as pool:
        sl.resume(file, terraces, workers=pool.map)
    assert fingerprint(file) == fingerprint(whole)


# Reading


@pytest.mark.parametrize("ending", ["npz", "parquet"])
def test_an_export_that_is_interrupted_leaves_no_thread_and_no_file(ending, tmp_path, monkeypatch):
    """Points are read in a thread while those before are written."""
    monkeypatch.setattr(reader, "MOST_KEPT", 0)
    monkeypatch.setattr(reader, "LARGEST_PART", 1)
    sl.minimize(smooth, **options("cma", "free", None, maxfevals=60), store=tmp_path / "run.db")
    run, threads = sl.load(tmp_path / "run.db"), threading.active_count()
    whole, read = reader.Evaluations.parts, []

    def parts(self):
        for part in whole(self):
            read.append(part)
            if len(read) == 20:
                raise KeyboardInterrupt
            yield part

    with monkeypatch.context() as patched:
        patched.setattr(reader.Evaluations, "parts", parts)
        with pytest.raises(KeyboardInterrupt):
            run.export(tmp_path / f"run.{ending}")
    assert (threading.active_count(), os.listdir(tmp_path)) == (threads, ["run.db"])
    run.export(tmp_path / f"run.{ending}")
    assert len(os.listdir(tmp_path)) == 2


def test_a_stored_run_can_be_read_exported_and_begun_from(tmp_path):
    import pyarrow.parquet as parquet

    file = tmp_path / "run.db"
    result = sl.minimize(lambda x: float(np.sum((x - 1) ** 2)), np.zeros(3), 0.5, rng=1, maxfevals=300, store=file)
    run = sl.load(file)
    assert (run.result.nfev, run.result.fun, run.result.message) == (result.nfev, result.fun, result.message)
    assert run.result.cov.tobytes() == result.cov.tobytes()
    assert run.points.shape == (result.nfev, 3)
    assert run.evaluations.iteration[-1] == result.nit + 1 == 43  # of the last generation, a part was evaluated
    run.export(tmp_path / "run.csv")
    with (tmp_path / "run.csv").open() as stream:
        rows = list(csv.DictReader(stream))
    assert np.array([float(row["value"]) for row in rows]).tobytes() == run.values.tobytes()
    assert np.array([[float(row[f"x{i}"]) for i in range(3)] for row in rows]).tobytes() == run.points.tobytes()
    run.export(tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert table["value"].to_numpy().tobytes() == run.values.tobytes()
    assert table.column_names == ["run", "iteration", "index", "value", "x0", "x1", "x2"]
    with pytest.raises(ValueError, match=r"must end with .csv or .parquet"):
        run.export(tmp_path / "run.txt")
    x0, sigma0, cov0 = run.warm_start()
    assert sl.minimize(lambda x: float(np.sum((x - 1.1) ** 2)), x0, sigma0, cov0=cov0, rng=1, ftarget=1e-8).success


def test_reading_changes_nothing(tmp_path):
    file = tmp_path / "run.db"
    (folder := tmp_path / "copy").mkdir()
    sl.minimize(
        Counted(before=lambda calls: calls == 90 and copied(file, folder / "run.db")),
        **options("cma", "free", None),
        store=file,
    )
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    run = sl.load(folder / "run.db")
    assert run.result.nfev == run.values.size > 0
    assert {name: (folder / name).read_bytes() for name in before} == before


NORM, LINE = (lambda x: x @ x), LinearConstraint(np.eye(4)[:1], 0.2, np.inf)
CONSTRAINTS = {
    "free": None,
    "linear": LINE,
    "kept": NonlinearConstraint(NORM, -np.inf, 30.0, keep_feasible=True),
    "inequality": NonlinearConstraint(NORM, 9.0, 20.0),
    "both": [LINE, NonlinearConstraint(NORM, 9.0, 20.0)],
}


@pytest.mark.parametrize("moment", [3, 17, 98, 104])
@pytest.mark.parametrize("kind", CONSTRAINTS)
def test_every_reader_finds_the_best_point_of_the_run(kind, moment, tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file, settings = tmp_path / "run.db", options("cma", "bounded", None, constraints=CONSTRAINTS[kind])
    cut_short(file, moment, smooth, **settings, popsize=8)
    run, status, progress = sl.load(file), read_status(file), Follower(file).advance(10)
    totals, values = data.totals(progress), run.constraints  # of those that an evaluated point may violate
    allowed = np.all((values >= 9.0) & (values <= 20.0), axis=1)
    expected = np.min(run.values[allowed]) if np.any(allowed) else np.nan
    found = run.result.fun if kind == "free" or run.result.maxcv == 0 else np.nan
    np.testing.assert_equal([found, status.best], [expected, expected])
    assert totals["best"] == data.number(expected)
    assert smooth(run.result.x) == run.result.fun
    assert run.result.x.tobytes() == data.best_point(progress).tobytes()
    assert run.result.nfev == status.nfev == totals["nfev"] == moment
    assert run.result.nit == status.nit == len(run.result.history) == (moment - 1) // 8


# The parts


def test_arrays_come_back_with_their_order_in_memory(rng):
    tree = {
        "a": rng.standard_normal((3, 4)),
        "b": (np.asfortranarray(rng.standard_normal((3, 4))), None),
        "c": np.float64(2.5),
        "d": 3,
    }
    again = serialize.unpack(tree, *serialize.pack(tree))
    assert again["a"].flags.c_contiguous
    assert again["b"][0].flags.f_contiguous
    np.testing.assert_array_equal(again["b"][0], tree["b"][0])
    assert (type(again["c"]), type(again["d"]), again["b"][1]) == (np.float64, int, None)


@pytest.mark.parametrize("limit", [4, 7, 16])
def test_a_long_history_is_thinned_and_restored_alike(limit, monkeypatch):
    monkeypatch.setattr("sublevel.run.history.ROWS", limit)
    optimizer = sl.Optimizer(np.ones(3), 0.5, restarts="ipop", popsize=4, rng=1)
    history, told = History(optimizer), []
    for _ in range(100):
        X = optimizer.ask()
        optimizer.tell(X, [terraces(x) for x in X])
        history.record(optimizer)
        told.append((*history.last, history.last_run, len(X)))
        optimizer.restart()
        table = np.array(told)
        seen = Generations(table[:, :4], table[:, 4].astype(int), table[:, 5].astype(int))
        again = History.restored(optimizer.start, history.snapshots, history.pace, seen, 4)
        apart = {"last": 0, "last_median": 0, "_endings": 0, "theta_of_best": 0}
        assert again.__dict__ | apart == history.__dict__ | apart
        assert history.last_run + 1 <= len(history) <= max(limit, history.last_run + 1)
    assert history.last_run > 1
    assert history["nfev"][-1] == optimizer.nfev
    assert history["generation_best"].min() == min(row[2] for row in told)
    assert [run.fun for run in history.runs] == [
        min(row[2] for row in told if row[4] == run) for run in range(history.last_run + 1)
    ]


def shift_points(file, factor):
    """Multiply the points of the last generation, as if another machine had made them."""
    with sqlite3.connect(file) as connection:
        query = "SELECT * FROM evaluations WHERE place = 0 ORDER BY iteration DESC"
        iteration, place, run, size, points, values, origin, _ = connection.execute(query).fetchone()
        row = with_checksum(iteration, place, run, size, (np.frombuffer(points) * factor).tobytes(), values, origin)
        connection.execute("INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()


def test_a_machine_that_rounds_differently_goes_on_with_a_warning(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    shift_points(file, 1 + 2**-50)
    with pytest.warns(UserWarning, match="rounds differently"):
        assert sl.resume(file, smooth, maxfevals=121).nfev == 121


def test_points_of_another_run_are_noticed(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    shift_points(file, 1.01)
    with pytest.raises(sl.StoreError, match="does not reproduce the stored points"):
        sl.resume(file, smooth)


def test_trouble_while_nothing_arrives_is_told_with_the_next_value(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    monkeypatch.setattr(recorder, "SAVINGS", 0.0)

    def before(calls):
        if calls == 3:
            monkeypatch.setattr(File, "write", full_disk)
            time.sleep(4 * recorder.LONGEST_WAIT)

    with pytest.raises(sl.StoreError, match="disk is full") as caught:
        sl.minimize(Counted(before=before), **options("cma", "free", None), store=tmp_path / "run.db")
    assert caught.value.sublevel_result.nfev == 4


def test_a_custom_generator_is_refused_before_the_first_evaluation(tmp_path):
    class Own(np.random.PCG64):
        pass

    with pytest.raises(sl.StoreError, match="NumPy's own generators"):
        sl.minimize(terraces, np.ones(2), 0.3, rng=np.random.Generator(Own(1)), store=tmp_path / "run.db")
    assert os.listdir(tmp_path) == []


def test_many_variables_are_one_column_in_parquet(tmp_path, monkeypatch):
    import pyarrow.parquet as parquet

    monkeypatch.setattr(export, "ROW_GROUP", 2**16)
    monkeypatch.setattr(reader, "MOST_KEPT", 0)
    sl.minimize(terraces_of_many, np.ones(1001), 0.3, rng=1, method="sep-cma", maxiter=3, store=tmp_path / "run.db")
    run = sl.load(tmp_path / "run.db")
    run.export(tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    assert parquet.ParquetFile(tmp_path / "run.parquet").num_row_groups > 1
    assert table.column_names == ["run", "iteration", "index", "value", "x"]
    assert table["value"].to_numpy().tobytes() == run.values.tobytes()
    points = table["x"].combine_chunks().flatten().to_numpy().reshape(-1, 1001)
    assert points.tobytes() == run.points.tobytes()


def terraces_of_many(x):
    return float(np.floor(np.sum(x**2)))


def test_parquet_says_what_it_needs(tmp_path, monkeypatch):
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=16), store=tmp_path / "run.db")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sl.StoreError, match=r"sublevel\[parquet\]"):
        sl.load(tmp_path / "run.db").export(tmp_path / "run.parquet")


def test_a_run_can_be_read_where_nobody_can_write(tmp_path, monkeypatch):
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=17), store=tmp_path / "run.db")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert sl.load(tmp_path / "run.db").values.size == 17


def test_a_file_system_without_links_will_do(tmp_path, monkeypatch):
    def none(*arguments):
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(os, "link", none)
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=16), store=tmp_path / "run.db")
    assert os.listdir(tmp_path) == ["run.db"]


def test_what_waits_is_written_soon(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    monkeypatch.setattr(recorder, "SAVINGS", 0.0)
    file, sizes, waited = tmp_path / "run.db", [], threading.Event()

    def before(calls):
        if calls == 3:
            sizes.append(sl.load(file).values.size)
            waited.wait(4 * recorder.LONGEST_WAIT)
            sizes.append(sl.load(file).values.size)

    sl.minimize(Counted(before=before), **options("cma", "free", None, maxfevals=16), store=file)
    assert sizes == [0, 3]


def two_valleys(x):
    """The minimum at 0, and a worse one at 30."""
    return min(float(np.sum(np.square(x))), 5.0 + float(np.sum(np.square(x - 30))))


def starts(rng):
    """The first run begins near 0, and others near 30: the generator has drawn more by then."""
    return np.full(2, 1.0 if rng.bit_generator.state["state"]["state"] == FIRST else 29.0)


FIRST = np.random.default_rng(1).bit_generator.state["state"]["state"]


def test_the_distribution_of_the_run_that_found_the_best_survives(tmp_path):
    whole = sl.minimize(two_valleys, starts, 0.5, restarts=2, rng=1)
    assert whole.restarts == 2
    np.testing.assert_allclose(whole.mean, 0.0, atol=1e-6)
    began = [int(whole.history["nfev"][run.rows.start]) for run in whole.history.runs]
    assert (
        sl.minimize(
            two_valleys, starts, 0.5, restarts=2, rng=1, maxfevals=began[2] + 30, store=tmp_path / "run.db"
        ).restarts
        == 2
    )
    loaded = sl.load(tmp_path / "run.db").result
    again = sl.resume(tmp_path / "run.db", two_valleys, x0=starts, maxfevals=1e5)
    for result in (loaded, again):
        np.testing.assert_array_equal(result.mean, whole.mean)
        np.testing.assert_array_equal(result.cov, whole.cov)
        assert result.success
    assert again.nfev == whole.nfev


def test_a_loaded_run_knows_its_failures(tmp_path):
    def fun(x):
        return np.nan if x[0] < 0 else float(np.sum(x**2))

    sl.minimize(fun, np.ones(3), 0.5, rng=1, maxfevals=200, store=tmp_path / "run.db")
    run = sl.load(tmp_path / "run.db")
    failed = int(np.count_nonzero(np.isnan(run.values)))
    assert run.result.failures.counts == {"nan": failed}
    assert all(failure.x[0] < 0 for failure in run.result.failures.last)
    assert next(finding.numbers for finding in run.result.diagnosis if finding.name == "failed")["failed"] == failed > 0
    again, whole = (
        sl.resume(tmp_path / "run.db", fun, maxfevals=400),
        sl.minimize(fun, np.ones(3), 0.5, rng=1, maxfevals=400),
    )
    assert again.failures.counts == whole.failures.counts
    assert again.diagnosis == whole.diagnosis


def test_a_loaded_run_without_failures_has_none(tmp_path):
    sl.minimize(smooth, np.ones(3), 0.5, rng=1, maxfevals=200, store=tmp_path / "run.db")
    run = sl.load(tmp_path / "run.db")
    assert (len(run.result.failures), run.result.diagnosis) == (0, [])


def test_a_run_that_goes_on_has_not_ended(tmp_path):
    """It was resumed and died: how it ended before does not hold for what was found since."""
    sl.minimize(smooth, np.ones(3), 0.5, rng=1, restarts=3, maxfevals=1200, store=tmp_path / "run.db")
    assert list(sl.load(tmp_path / "run.db").result.reasons) == ["maxfevals"]
    count = 0

    def better_then_dead(x):
        nonlocal count
        count += 1
        if count > 30:
            raise KeyError("dead")
        return smooth(x) - 100.0

    with pytest.raises(KeyError):
        sl.resume(tmp_path / "run.db", better_then_dead, maxfevals=3000, check=False)
    found = sl.load(tmp_path / "run.db").result
    assert found.fun < -90
    assert not found.success
    assert "is from run" not in found.message


# Which objective


def shifted(x):
    """Another objective than `smooth`."""
    return smooth(x) + 0.01 * x[0]


def test_another_objective_is_noticed_before_it_is_mixed_in(tmp_path):
    file = tmp_path / "run.db"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    before = sl.load(file).values.size
    other = Counted(shifted)
    with pytest.raises(sl.StoreError, match="is not the original objective"):
        sl.resume(file, other)
    assert other.calls == 2  # the second time tells it from a noisy one
    assert sl.load(file).values.size == before
    assert sl.resume(file, shifted, check=False, maxfevals=201).nfev == 201
    assert sl.resume(file, shifted, maxfevals=300).nfev <= 300  # the last values are those of this one


def test_the_objective_is_looked_at_once_and_only_if_something_is_evaluated(tmp_path):
    file, same = tmp_path / "run.db", Counted(smooth)
    sl.minimize(smooth, **options("cma", "free", None, maxfevals=81), store=file)
    assert sl.resume(file, same).nfev == 81
    assert same.calls == 0
    assert sl.resume(file, same, maxfevals=161).nfev == 161
    assert same.calls == 81
    assert sl.resume(file, same, maxfevals=241, check=False).nfev == 241
    assert same.calls == 161


@pytest.mark.parametrize("vectorized", [False, True])
def test_rounding_is_not_another_objective(vectorized, tmp_path):
    file, slip = tmp_path / "run.db", 1 + 1e-13

    def fun(x):
        return np.sum(x**2, axis=-1)

    sl.minimize(fun, np.ones(3), 0.5, rng=1, maxfevals=400, vectorized=vectorized, store=file)
    assert sl.resume(file, lambda x: fun(x) * slip, maxfevals=500).nfev > 400


def noisy(seed, level):
    """`smooth` with noise, which differs from call to call."""
    rng = np.random.default_rng(seed)
    return lambda x: smooth(x) + level * rng.standard_normal()


def test_a_noisy_objective_goes_on_without_a_word(tmp_path, recwarn):
    file = tmp_path / "run.db"
    sl.minimize(noisy(1, 1.0), **options("cma", "free", None, maxfevals=80), store=file)
    for seed in range(20):
        sl.resume(file, noisy(seed, 1.0), maxfevals=88 + 8 * seed)
    assert not recwarn.list


def test_a_noisy_objective_that_is_off_by_more_than_its_noise_gets_a_warning(tmp_path):
    file = tmp_path / "run.db"
    sl.minimize(noisy(1, 1e-3), **options("cma", "free", None, maxfevals=400), store=file)
    spread = np.ptp(sl.load(file).values[-8:])
    off, far = (noisy(2, 1e-3) for _ in range(2))
    with pytest.warns(UserWarning, match="may not be the original objective"):
        sl.resume(file, lambda x: off(x) + 10 * spread, maxfevals=420)
    with pytest.raises(sl.StoreError, match="so this is not noise"):
        sl.resume(file, lambda x: far(x) + 1e4 * spread, maxfevals=500)


def test_an_objective_that_fails_at_the_stored_point_gets_a_warning_and_no_failure(tmp_path):
    file, calls = tmp_path / "run.db", itertools.count()

    def flaky(x):
        if next(calls) < 2:
            raise OSError("no licence")
        return smooth(x)

    sl.minimize(smooth, **options("cma", "free", None, maxfevals=80), store=file)
    with pytest.warns(UserWarning, match="could not be compared"):
        result = sl.resume(file, flaky, maxfevals=160, on_error="nan")
    assert len(result.failures) == 0


# Failures


def failing(x):
    """Raises here, returns NaN there."""
    if x[0] < 0.5:
        raise EvaluationFailed("no mesh", "the angle\n is \x1b[1m too small")
    if x[1] < 0.5:
        raise ValueError("x[1] is out of range")
    return np.nan if x[2] < 0.5 else smooth(x)


def test_the_kinds_of_failures_survive(tmp_path):
    file, settings = tmp_path / "run.db", {"rng": 1, "on_error": "nan"}
    whole = sl.minimize(failing, np.ones(3), 0.5, maxfevals=400, **settings)
    assert set(whole.failures.counts) == {"no mesh", "error", "nan"}
    half = sl.minimize(failing, np.ones(3), 0.5, maxfevals=210, **settings, store=file)
    loaded = sl.load(file).result
    assert loaded.failures.counts == half.failures.counts
    assert [failure[:2] for failure in loaded.failures.last] == [failure[:2] for failure in half.failures.last]
    assert all(a.x.tobytes() == b.x.tobytes() for a, b in zip(loaded.failures.last, half.failures.last, strict=True))
    resumed = sl.resume(file, failing, maxfevals=400)
    assert resumed.failures.counts == whole.failures.counts
    assert sl.load(file).result.diagnosis == whole.diagnosis


@pytest.mark.parametrize("moment", [1, 2, 9, 30, 77])
def test_a_failure_is_counted_once_whenever_the_run_is_killed(moment, tmp_path, at_once):
    file, settings = tmp_path / "run.db", {"rng": 1, "on_error": "nan", "maxfevals": 140}
    whole = sl.minimize(failing, np.ones(3), 0.5, **settings, store=tmp_path / "whole.db")
    copy = tmp_path / "copy.db"
    fun = Counted(failing, lambda calls: calls == moment and copied(file, copy))
    sl.minimize(fun, np.ones(3), 0.5, **settings, store=file)
    assert sl.resume(copy, failing).failures.counts == whole.failures.counts


def test_a_batch_that_fails_is_one_row(tmp_path):
    def fun(X):
        if X[0, 0] < 1:
            raise ValueError("not now")
        return np.sum(X**2, axis=1)

    file = tmp_path / "run.db"
    result = sl.minimize(
        fun, np.ones(2), 0.3, rng=1, popsize=1000, maxiter=6, vectorized=True, on_error="nan", store=file
    )
    assert sl.load(file).result.failures.counts == result.failures.counts
    with sqlite3.connect(file) as connection:
        assert (
            connection.execute("SELECT count(*) FROM failures").fetchone()[0] * 1000
            == result.failures.counts["error"]
            > 0
        )
    connection.close()


# Batches


def test_a_batch_is_one_row(tmp_path, at_once):
    file = tmp_path / "run.db"
    sl.minimize(
        lambda X: np.sum(X**2, axis=1), np.ones(3), 0.5, rng=1, popsize=500, maxiter=4, vectorized=True, store=file
    )
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*), min(length(vals)) FROM evaluations").fetchone() == (4, 4000)
    connection.close()


def test_small_generations_share_rows(tmp_path, monkeypatch):
    monkeypatch.setattr(pending, "LARGEST_SHARED_ROW", 2000)
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    settings, file = options("cma", "free", None, vectorized=True, popsize=8), tmp_path / "run.db"
    result = sl.minimize(batched, **settings, store=file)
    with sqlite3.connect(file) as connection:
        rows = connection.execute("SELECT iteration, size, length(vals) / 8 / size FROM evaluations").fetchall()
        (generations,) = connection.execute("SELECT count(*) FROM generations").fetchone()
    connection.close()
    assert sum(count for _, _, count in rows) == result.nit > 3 * len(rows)
    assert generations == len(rows)
    assert max(count for _, _, count in rows) > 1
    seen = seen_points("cma", "free", tmp_path / "again.db", popsize=8)
    assert sl.load(file).points.tobytes() == seen.tobytes()
    assert fingerprint(file) == fingerprint(tmp_path / "again.db")


@pytest.mark.parametrize("moment", [1, 7, 20])
def test_a_run_resumes_from_shared_rows(moment, folder, monkeypatch):
    """The state is that of the beginning, so that all generations are taken from the shared rows."""
    keep_state(monkeypatch, always=False)
    settings = options("cma", "bounded", "ipop", vectorized=True, popsize=8)
    file, copy = folder / "run.db", folder / "copy.db"

    def before(calls):
        if calls == moment:
            time.sleep(3 * recorder.LONGEST_WAIT)  # everything is written
            copied(file, copy)

    fun = Counted(batched, before)
    sl.minimize(fun, **settings, store=file)
    again = Counted(batched)
    sl.resume(copy, again, check=False)
    assert again.calls == fun.calls - moment
    assert fingerprint(copy) == fingerprint(file)


@pytest.mark.parametrize("change", [(0, 8), (-8, 8), (7, 8), (16, 8)], ids=["none", "negative", "uneven", "larger"])
def test_a_wrong_size_of_shared_generations_is_damage(change, tmp_path):
    file = tmp_path / "run.db"
    sl.minimize(batched, **options("cma", "free", None, vectorized=True, popsize=8, maxfevals=48), store=file)
    with sqlite3.connect(file) as connection:
        *columns, origin, _ = connection.execute("SELECT * FROM evaluations LIMIT 1").fetchone()
        assert columns[3] == change[1]
        columns[3] = change[0]
        connection.execute(
            "INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?, ?, ?, ?, ?)", with_checksum(*columns, origin)
        )
    connection.close()
    for attempt in (sl.load, lambda path: sl.resume(path, batched, maxfevals=100)):
        with pytest.raises(sl.StoreError, match="damaged"):
            attempt(file)


def batched(X):
    return np.array([terraces(x) for x in X])


@pytest.mark.parametrize("row", [2**23, 100], ids=["one row", "many rows"])
@pytest.mark.parametrize("moment", [0, 1, 2, 13])
def test_a_batch_survives_a_kill_before_and_after_it_is_told(row, moment, folder, monkeypatch, at_once):
    monkeypatch.setattr(pending, "LARGEST_ROW", row)
    keep_state(monkeypatch, always=False)
    settings = options("cma", "free", None, vectorized=True, popsize=32)
    file, whole, after = folder / "run.db", folder / "whole.db", folder / "after.db"
    sl.minimize(batched, **settings, store=whole)
    tell, before = sl.Optimizer.tell, folder / "before.db"

    def told(self, X, values):
        if self.nit == moment:
            copied(file, before)
        tell(self, X, values)

    with monkeypatch.context() as patched:
        patched.setattr(sl.Optimizer, "tell", told)
        fun = Counted(batched, lambda calls: calls == moment + 1 and copied(file, after))
        sl.minimize(fun, **settings, store=file)
    for copy in (before, after):
        again = Counted(batched)
        sl.resume(copy, again, check=False)
        assert again.calls == fun.calls - moment - 1
        assert fingerprint(copy) == fingerprint(file) == fingerprint(whole)


# Large samples


@pytest.fixture
def all_large(monkeypatch):
    """Every sample is stored as what it was drawn with."""
    monkeypatch.setattr(samples, "SMALLEST", 0)
    monkeypatch.setattr(samples, "LEAST_GAIN", 0)


def seen_points(method, bounds, store, **more):
    """The points that an objective gets in a stored run."""
    seen = []

    def fun(X):
        seen.append(X.copy())
        return np.array([terraces(x) for x in X])

    sl.minimize(fun, **options(method, bounds, None, vectorized=True, **more), store=store)
    return np.concatenate(seen)


def test_points_of_large_samples_are_not_stored(tmp_path):
    file = tmp_path / "run.db"
    seen = seen_points("cma", "free", file, popsize=20_000, maxfevals=100_000)
    assert file.stat().st_size / len(seen) < 10  # bytes; a value has 8, a point and its value 40
    with sqlite3.connect(file) as connection:
        assert connection.execute(
            "SELECT count(*), max(length(points)), min(length(vals)) FROM evaluations"
        ).fetchone() == (5, 0, 160_000)
        assert connection.execute("SELECT count(*), max(length(data)) < 1000 FROM samples").fetchone() == (5, 1)
    connection.close()
    assert sl.load(file).points.tobytes() == seen.tobytes()


def test_small_samples_that_are_drawn_again_share_rows(tmp_path, monkeypatch):
    """A quick run of 1000 points per generation stores neither its points nor a row for each of its samples."""
    keep_state(monkeypatch, False)
    for name in ("USUAL_WAIT", "LONGEST_WAIT"):
        monkeypatch.setattr(recorder, name, 60.0)  # rows are written when they are full, however slow the machine is
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    file = tmp_path / "run.db"
    seen = seen_points("cma", "free", file, popsize=1000, maxfevals=100_000, evaluate_x0=False)
    with sqlite3.connect(file) as connection:
        for table in ("samples", "evaluations"):
            (count,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()
            assert count < 5  # of 100 generations
        assert connection.execute("SELECT max(length(points)) FROM evaluations").fetchone() == (0,)
    connection.close()
    run = sl.load(file)
    assert run.points.tobytes() == seen.tobytes()


def stored_point_bytes(file):
    """Bytes of the points in the rows of a file, without the first generation, which has the start."""
    with sqlite3.connect(file) as connection:
        query = "SELECT coalesce(sum(length(points)), 0) FROM evaluations WHERE iteration > 1"
        (size,) = connection.execute(query).fetchone()
    connection.close()
    return size


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.MT19937, np.random.SFC64], ids=lambda kind: kind.__name__)
def test_points_are_stored_only_if_the_objective_takes_longer(kind, tmp_path, monkeypatch):
    """Samples of 4 kB are drawn again for a fast objective and stored for a slow one, with the same sum and points."""
    sums, points = set(), set()
    for fast, file in ((1e3, tmp_path / "fast.db"), (0.0, tmp_path / "slow.db")):
        monkeypatch.setattr(samples, "FAST", fast)
        seen = seen_points("cma", "free", file, popsize=128, maxfevals=2000, rng=np.random.Generator(kind(1)))
        assert (stored_point_bytes(file) == 0) == (fast > 0)
        assert sl.load(file).points.tobytes() == seen.tobytes()
        sums.add(fingerprint(file))
        points.add(seen.tobytes())
    assert len(sums) == len(points) == 1
    seen_points("cma", "free", tmp_path / "other.db", popsize=128, maxfevals=2000, rng=2)
    assert fingerprint(tmp_path / "other.db") not in sums


@pytest.mark.parametrize(("first", "then"), [(1e3, 0.0), (0.0, 1e3)], ids=["drawn, then stored", "stored, then drawn"])
def test_an_unfinished_sample_may_be_finished_in_the_other_way(first, then, tmp_path, monkeypatch):
    """A process that resumes a run first takes it for a slow one, so that it stores the points of the sample."""
    calls, settings = [], {"rng": 1, "popsize": 128, "maxiter": 6, "evaluate_x0": False}

    def fun(x):
        calls.append(1)
        if len(calls) == 500:
            raise KeyboardInterrupt
        return float(np.sum(x**2))

    sl.minimize(lambda x: float(np.sum(x**2)), np.ones(4), 0.5, store=tmp_path / "whole.db", **settings)
    monkeypatch.setattr(samples, "FAST", first)
    sl.minimize(fun, np.ones(4), 0.5, store=tmp_path / "run.db", **settings)
    monkeypatch.setattr(samples, "FAST", then)
    assert sl.resume(tmp_path / "run.db", fun).nit == 6
    assert fingerprint(tmp_path / "run.db") == fingerprint(tmp_path / "whole.db")
    with closing(File(tmp_path / "run.db")) as file:
        stored = {row[0] for row in file.rows("evaluations") if row[4]}
        drawn = {iteration for iteration, *_ in file.rows("samples")}
    assert stored
    assert drawn
    assert drawn.isdisjoint(stored)


@pytest.mark.parametrize("rng", [3, np.random.PCG64(3)], ids=["own generator", "shared generator"])
def test_a_sample_is_stored_if_its_row_is_written_before_its_end(rng, tmp_path, monkeypatch):
    """A call that takes long is written by the thread, together with the row that its sample would have continued."""
    monkeypatch.setattr(samples, "FAST", 1e3)
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    rng, seen, file = np.random.Generator(np.random.PCG64(3)) if rng != 3 else 3, [], tmp_path / "run.db"

    def fun(X):
        seen.append(X.copy())
        if len(seen) in (9, 20):
            time.sleep(4 * recorder.LONGEST_WAIT)
        return np.sum(X**2, axis=1)

    sl.minimize(fun, np.ones(4), 0.5, rng=rng, popsize=100, maxiter=30, vectorized=True, evaluate_x0=False, store=file)
    with closing(File(file)) as opened:
        rows = {row[0]: len(row[4]) for row in opened.rows("evaluations")}
    assert {iteration for iteration, size in rows.items() if size} == {9, 20}
    assert len(rows) < 10
    assert sl.load(file).points.tobytes() == np.concatenate(seen).tobytes()


def pack_in_turns(thetas):
    """As if the roots of every second distribution had columns that are contiguous in memory."""
    turned = [replace(theta, root=np.asfortranarray(theta.root)) if k % 2 else theta for k, theta in enumerate(thetas)]
    return [serialize.pack(theta) for theta in turned]


def test_samples_of_different_layouts_share_a_row(tmp_path, monkeypatch):
    """The memory order of a root depends on how it was computed, and decides how products with it are rounded."""
    monkeypatch.setattr(samples, "FAST", 1e3)
    monkeypatch.setattr(samples, "pack_each", pack_in_turns)
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    seen = seen_points("cma", "free", tmp_path / "run.db", popsize=128, maxfevals=2000)
    with closing(File(tmp_path / "run.db")) as opened:
        facts = [json.loads(row[3]) for row in opened.rows("samples")]
    assert any(len(fact["layouts"]) == fact["generations"] > 1 for fact in facts)
    np.testing.assert_allclose(sl.load(tmp_path / "run.db").points, seen, rtol=1e-12)


def test_an_objective_may_draw_from_the_generator_of_the_search(tmp_path, monkeypatch):
    monkeypatch.setattr(samples, "FAST", 1e3)
    rng, seen, file = np.random.default_rng(1), [], tmp_path / "run.db"

    def fun(X):
        seen.append(X.copy())
        return np.sum(X**2, axis=1) + (1e-3 * rng.standard_normal() if len(seen) % 3 else 0.0)

    sl.minimize(fun, np.ones(4), 0.5, rng=rng, popsize=128, maxiter=12, vectorized=True, store=file)
    assert stored_point_bytes(file) == 0
    assert sl.load(file).points.tobytes() == np.concatenate(seen).tobytes()


@pytest.mark.parametrize(("size", "is_read"), [(2**24, True), (2**24 + 1, False)])
def test_json_is_limited_wherever_it_stands(size, is_read):
    """A text of empty lists takes thirty times as much memory when it is read."""
    text = json.dumps("x" * (size - 2))
    if is_read:
        assert len(serialize.parse_json(text, "too long")) == size - 2
    else:
        with pytest.raises(serialize.FormatError, match="too long"):
            serialize.parse_json(text, "too long")


def test_trees_of_one_layout_are_packed_together():
    trees = [{"a": np.arange(6.0).reshape(2, 3) + k, "b": (k, None), "c": np.float64(k)} for k in range(3)]
    layout, data = serialize.pack_all(trees)
    assert (layout, data) == (serialize.pack(trees[0])[0], b"".join(serialize.pack(tree)[1] for tree in trees))
    turned = [tree | {"a": np.asfortranarray(tree["a"])} for tree in trees]
    layout, data = serialize.pack_all(turned)
    assert (layout, data) == (serialize.pack(turned[0])[0], b"".join(serialize.pack(tree)[1] for tree in turned))


@pytest.mark.parametrize("other", [np.asfortranarray(np.ones((2, 3))), np.ones((3, 2)), np.ones((2, 3), bool), None])
def test_trees_of_different_layouts_are_not_packed_together(other):
    tree = {"a": np.ones((2, 3))}
    assert serialize.pack_all([tree, {"a": other}]) is None
    assert serialize.pack_all([{"a": other}, tree]) is None


def test_a_distribution_that_takes_as_many_bytes_as_its_sample_is_not_stored(tmp_path):
    file, x0 = tmp_path / "run.db", np.ones(100)
    sl.minimize(lambda X: np.sum(X**2, axis=1), x0, 0.5, popsize=100, maxiter=2, vectorized=True, store=file)
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (0,)
        assert connection.execute("SELECT min(length(points)) FROM evaluations").fetchone() == (80_000,)
    connection.close()


@pytest.mark.parametrize("bounds", BOUNDS)
@pytest.mark.parametrize("method", ["cma", "sep-ngd", "iso-xnes"])
def test_points_that_are_drawn_again_are_those_that_were_evaluated(method, bounds, tmp_path, all_large, monkeypatch):
    seen = seen_points(method, bounds, tmp_path / "run.db")
    assert sl.load(tmp_path / "run.db").points.tobytes() == seen.tobytes()
    monkeypatch.setattr(reader, "MOST_KEPT", 0)
    monkeypatch.setattr(reader, "LARGEST_PART", 200)
    run = sl.load(tmp_path / "run.db")
    assert max(len(part) for _, part in run.evaluations.parts()) == 200 // 32
    assert run.points.tobytes() == seen.tobytes()


LARGE = [("cma", "free", None), ("sep-cma", "bounded", "ipop"), ("iso-ngd", "free", "bipop"), ("pbil", "free", None)]


@pytest.mark.parametrize("case", LARGE, ids=["-".join(map(str, case)) for case in LARGE])
@pytest.mark.parametrize("always", [True, False], ids=["state always", "state never"])
def test_runs_of_large_samples_go_on_from_every_evaluation(case, always, folder, monkeypatch, at_once, all_large):
    keep_state(monkeypatch, always)
    check_resumes(folder, case, {0, 1, 2, 9, 10, 76, 77, 301})


def test_a_large_batch_is_resumed_after_a_kill(folder, all_large, monkeypatch, at_once):
    test_a_batch_survives_a_kill_before_and_after_it_is_told(100, 2, folder, monkeypatch, at_once)


def change_sample(file, change):
    """Change the last row of samples: its columns, and its distributions and witness as arrays, with a right
    checksum.
    """
    with sqlite3.connect(file) as connection:
        *columns, data, origin, _ = connection.execute("SELECT * FROM samples ORDER BY iteration DESC").fetchone()
        columns[3] = json.loads(columns[3])
        end = len(data) - samples.size_of_witness(3)
        arrays = serialize.unpack(
            {"thetas": np.empty(end // 8), "first": np.empty(3), "checksum": np.int64(0)},
            json.dumps(
                [["thetas", "float64", [end // 8], "C"], ["first", "float64", [3], "C"], ["checksum", "int64", [], "C"]]
            ),
            data,
        )
        change(columns, arrays)
        columns[3] = columns[3] if isinstance(columns[3], str) else json.dumps(columns[3])
        row = with_checksum(*columns, serialize.pack(arrays)[1], origin)
        connection.execute("INSERT OR REPLACE INTO samples VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()


def round_differently(columns, arrays):
    arrays["checksum"] ^= 1
    arrays["first"] *= 1 + 1e-12


def draw_others(columns, arrays):
    arrays["checksum"] ^= 1
    arrays["first"] += 0.1


def ask_for_more(columns, arrays):
    columns[2] = 2**40


def ask_for_fewer(columns, arrays):
    columns[2] = 5


def leave_the_place(columns, arrays):
    columns[1] = -3


def break_the_state(columns, arrays):
    state = {"bit_generator": "PCG64", "state": {"state": -1, "inc": 1}, "has_uint32": 0, "uinteger": 0}
    columns[3]["state"] = state


def leave_out_the_state(columns, arrays):
    del columns[3]["state"]


def leave_out_the_number_of_generations(columns, arrays):
    del columns[3]["generations"]


def ask_for_no_generations(columns, arrays):
    columns[3]["generations"] = 0


def ask_for_other_generations(columns, arrays):
    columns[3]["generations"] = 7


def ask_for_many_generations_of_many_points(columns, arrays):
    columns[2], columns[3]["generations"] = 2**20, 2 * columns[3]["generations"]


def give_too_few_layouts(columns, arrays):
    columns[3]["layouts"] = []


def give_numbers_as_layouts(columns, arrays):
    columns[3]["layouts"] = [1] * columns[3]["generations"]


def give_a_list(columns, arrays):
    columns[3] = json.dumps([columns[3]])


def break_the_text(columns, arrays):
    columns[3] = "[" * 10_000


@pytest.fixture
def large_run(tmp_path, all_large):
    """A file with samples."""
    settings = {"rng": 1, "method": "sep-cma", "maxiter": 5, "vectorized": True, "popsize": 10}
    sl.minimize(lambda X: np.sum(X**2, axis=1), np.ones(3), 0.5, **settings, store=tmp_path / "run.db")
    return tmp_path / "run.db"


def test_points_that_are_drawn_with_other_rounding_come_with_a_warning(large_run):
    points = sl.load(large_run).points
    change_sample(large_run, round_differently)
    with pytest.warns(UserWarning, match="differ by rounding errors"):
        assert sl.load(large_run).points.tobytes() == points.tobytes()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (draw_others, "draws different random numbers"),
        (ask_for_more, "impossible size"),
        (ask_for_fewer, "values without points"),
        (leave_the_place, "impossible size"),
        (break_the_state, "out of range"),
        (break_the_text, "cannot be read"),
        (give_a_list, "cannot be read"),
        (give_too_few_layouts, "cannot be read"),
        (give_numbers_as_layouts, "cannot be read"),
        (leave_out_the_state, "random generator is missing"),
        (leave_out_the_number_of_generations, "incomplete"),
        (ask_for_no_generations, "incomplete"),
        (ask_for_other_generations, "incomplete"),
        (ask_for_many_generations_of_many_points, "impossible size"),
    ],
)
def test_a_sample_that_cannot_be_drawn_again_is_refused(change, words, large_run):
    change_sample(large_run, change)
    with pytest.raises(sl.StoreError, match=words):
        sl.load(large_run)
    with pytest.raises(sl.StoreError, match=words):
        sl.resume(large_run, lambda X: np.sum(X**2, axis=1), maxiter=7)


def test_a_sample_that_is_missing_is_told(large_run):
    with sqlite3.connect(large_run) as connection:
        (last,) = connection.execute("SELECT max(iteration) FROM samples").fetchone()
        connection.execute(f"DELETE FROM samples WHERE iteration = {last}")
    connection.close()
    with pytest.raises(sl.StoreError, match=f"sample of generation {last} is missing"):
        sl.load(large_run)


def test_a_run_of_single_points_goes_on_in_batches_and_the_other_way_round(tmp_path, at_once):
    settings = options("cma", "free", None)
    sl.minimize(terraces, **settings, store=tmp_path / "whole.db")
    copies = []

    def before(calls):
        if calls in (3, 77, 301):
            copies.append(copied(tmp_path / "run.db", tmp_path / f"{calls}.db"))

    sl.minimize(Counted(terraces, before), **settings, store=tmp_path / "run.db")
    for copy in copies:
        counted = Counted(lambda X: batched(X))
        sl.resume(copy, counted, vectorized=True, maxfevals=400)
        sl.resume(copy, terraces, vectorized=False, maxfevals=640)
        assert fingerprint(copy) == fingerprint(tmp_path / "whole.db")


def test_values_in_any_order_leave_one_row_for_each_generation(tmp_path, at_once):
    from concurrent.futures import ThreadPoolExecutor

    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    result = sl.minimize(terraces, **options("cma", "free", None), store=whole)
    with ThreadPoolExecutor(3) as pool:
        sl.minimize(terraces, **options("cma", "free", None), workers=pool, store=file)
    assert fingerprint(file) == fingerprint(whole)
    with sqlite3.connect(file) as connection:
        assert connection.execute("SELECT count(*), max(place) FROM evaluations").fetchone() == (result.nit, 0)
    connection.close()


def test_a_sample_that_could_not_be_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "LARGEST_GENERATION", 1000)
    with pytest.raises(sl.StoreError, match="a smaller `popsize`"):
        sl.minimize(terraces, np.ones(3), 0.3, popsize=100, store=tmp_path / "run.db")
    assert os.listdir(tmp_path) == []
    with pytest.raises(sl.StoreError, match="fewer restarts"):
        sl.minimize(cliff, np.ones(4), 0.3, popsize=10, restarts="ipop", rng=1, store=tmp_path / "run.db")
    assert sl.load(tmp_path / "run.db").values.size > 10


def test_a_state_that_could_not_be_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "LARGEST_BLOB", 1000)
    with pytest.raises(sl.StoreError, match="begins with `sep-`"):
        sl.minimize(terraces, np.ones(12), 0.3, store=tmp_path / "run.db")
    assert os.listdir(tmp_path) == []


# Many restarts


def test_what_is_written_can_be_read_after_many_restarts(tmp_path, monkeypatch):
    """The state of MT19937 takes 7 kB as text: it is kept once for each restart, and not in every checkpoint."""
    keep_state(monkeypatch, always=True)
    settings = {"restarts": sl.BIPOP(10**6, 1.0), "maxfevals": 4000, "popsize": 4}
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"

    def flat(x):
        return 0.0

    result = sl.minimize(flat, np.ones(2), 0.3, rng=np.random.Generator(np.random.MT19937(5)), store=whole, **settings)
    assert result.restarts > 300
    half = sl.minimize(
        flat,
        np.ones(2),
        0.3,
        rng=np.random.Generator(np.random.MT19937(5)),
        store=file,
        **settings | {"maxfevals": 2000},
    )
    for path in (file, whole):
        with sqlite3.connect(path) as connection:
            (size,) = connection.execute("SELECT length(facts) FROM parts WHERE name = 'checkpoint'").fetchone()
        connection.close()
        assert size < 10_000
    assert sl.load(file).result.restarts == half.restarts
    sl.resume(file, flat, maxfevals=4000)
    assert fingerprint(file) == fingerprint(whole)


def test_a_part_that_could_not_be_read_again_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(recorder, "LONGEST_JSON", 100)
    with pytest.raises(sl.StoreError, match="cannot be stored: it takes"):
        sl.minimize(terraces, np.ones(3), 0.3, store=tmp_path / "run.db")
    assert os.listdir(tmp_path) == []


# Files that do not belong together


@pytest.mark.parametrize("end", ["-wal", "-shm", "-journal"])
def test_a_log_that_is_left_over_is_refused(end, tmp_path):
    file, left = tmp_path / "run.db", tmp_path / f"run.db{end}"
    left.write_bytes(b"of a dead run")
    with pytest.raises(sl.StoreError, match="left over from another run"):
        sl.minimize(terraces, **options("cma", "free", None), store=file)
    assert os.listdir(tmp_path) == [left.name]
    assert left.read_bytes() == b"of a dead run"


def test_rows_of_another_run_are_noticed(tmp_path, at_once, monkeypatch):
    """A log that is put beside another file is replayed by SQLite, checksums and all.

    Without a checkpoint in the log: one that has the first pages as well would replace the whole run by the other one.
    """
    keep_state(monkeypatch, always=False)
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    killed = tmp_path / "killed.db"
    sl.minimize(
        Counted(before=lambda calls: calls == 200 and copied(first, killed)),
        **options("cma", "free", None),
        store=first,
    )
    sl.minimize(smooth, **options("cma", "free", None, rng=8, maxfevals=80), store=second)
    (tmp_path / "second.db-wal").write_bytes((tmp_path / "killed.db-wal").read_bytes())
    for attempt in (sl.load, lambda path: sl.resume(path, smooth, maxfevals=900)):
        with pytest.raises(sl.StoreError, match="damaged"):
            attempt(second)


def test_a_hard_link_is_refused(tmp_path):
    file, link = tmp_path / "run.db", tmp_path / "link.db"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    os.link(file, link)
    before = file.read_bytes()
    for name in (file, link):
        with pytest.raises(sl.StoreError, match="hard links"):
            sl.resume(name, smooth)
    assert file.read_bytes() == before
    link.unlink()
    assert sl.resume(file, smooth).nfev == 640


def test_the_name_that_a_killed_creator_left_is_removed(tmp_path):
    file, left = tmp_path / "run[1].db", tmp_path / ".run[1].db.0123456789ab"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    os.link(file, left)
    assert sl.resume(file, smooth).nfev == 640
    assert os.listdir(tmp_path) == [file.name]


def test_a_symbolic_link_is_followed_to_the_log(tmp_path, at_once):
    (tmp_path / "there").mkdir()
    file, killed, link = tmp_path / "run.db", tmp_path / "there" / "killed.db", tmp_path / "link.db"
    sl.minimize(
        Counted(before=lambda calls: calls == 99 and copied(file, killed)), **options("cma", "free", None), store=file
    )
    link.symlink_to(killed)
    assert sl.load(link).values.size == 99
    sl.resume(link, terraces)
    assert fingerprint(killed) == fingerprint(file)


def test_a_file_that_is_deleted_during_a_run_is_told_and_the_run_goes_on(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=True)
    file = tmp_path / "run.db"
    settings = options("cma", "free", None)
    with pytest.warns(UserWarning, match="was deleted or replaced"):
        result = sl.minimize(Counted(before=lambda calls: calls == 99 and file.unlink()), **settings, store=file)
    assert result.x.tobytes() == sl.minimize(terraces, **settings).x.tobytes()
    assert not file.exists()


def test_a_file_that_takes_the_place_of_another_is_left_alone(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=True)
    file, names = tmp_path / "run.db", ["run.db", "run.db-wal", "run.db-shm"]

    def before(calls):
        if calls == 99:
            for name in names:
                (tmp_path / name).unlink()
                (tmp_path / name).write_text("precious")

    with pytest.warns(UserWarning, match="was deleted or replaced"):
        sl.minimize(Counted(before=before), **options("cma", "free", None), store=file)
    assert [(tmp_path / name).read_text() for name in names] == ["precious"] * 3


def test_a_log_that_is_deleted_during_a_run_is_told_and_nothing_is_lost(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=True)
    file, whole, seen = tmp_path / "run.db", tmp_path / "whole.db", []

    def before(calls):
        if calls == 99:
            (tmp_path / "run.db-wal").unlink()
        if calls == 150:
            seen.append(sl.load(copied(file, tmp_path / "copy.db")).values.size)

    sl.minimize(terraces, **options("cma", "free", None), store=whole)
    with pytest.warns(UserWarning, match="run.db-wal was deleted"):
        sl.minimize(Counted(before=before), **options("cma", "free", None), store=file)
    assert fingerprint(file) == fingerprint(whole)
    assert seen[0] >= 144  # as a killed process would have left it


# Where it is driven


def driven_with(file, **facts):
    """Make a file say that it was driven on something else."""
    with sqlite3.connect(file) as connection:
        name, text, layout, data, origin, _ = connection.execute("SELECT * FROM parts WHERE name = 'driver'").fetchone()
        row = with_checksum(name, json.dumps(json.loads(text) | facts), layout, data, origin)
        connection.execute("INSERT OR REPLACE INTO parts VALUES (?, ?, ?, ?, ?, ?)", row)
    connection.close()


@pytest.mark.parametrize(
    "fact", ["Python", "NumPy", "SciPy", "BLAS of NumPy", "BLAS of SciPy", "threads of BLAS", "processor", "C library"]
)
def test_what_bits_depend_on_is_compared(fact, tmp_path, recwarn):
    file = tmp_path / "run.db"
    sl.minimize(smooth, **options("cma", "free", None, maxfevals=80), store=file)
    sl.resume(file, smooth, maxfevals=88)
    assert not recwarn.list
    driven_with(file, **{fact: "other 1.0"})
    with pytest.warns(UserWarning, match=f"{fact}: other 1.0, now"):
        sl.resume(file, smooth, maxfevals=96)
    recwarn.clear()
    sl.resume(file, smooth, maxfevals=104)  # once is enough
    assert not recwarn.list


def test_another_number_of_threads_is_told(tmp_path):
    code = (
        "import sys, numpy as np, sublevel as sl; sl.resume(sys.argv[1], lambda x: float(np.sum((x - 0.3) ** 2)), "
        "maxfevals=88)"
    )
    file = tmp_path / "run.db"
    sl.minimize(smooth, **options("cma", "free", None, maxfevals=80), store=file)
    driven_with(file, **{"threads of BLAS": "1"})
    for threads, told in (("1", False), ("2", True)):
        if int(threads) > len(os.sched_getaffinity(0)):
            continue
        environ = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run(
            [sys.executable, "-c", code, file], capture_output=True, text=True, check=True, env=environ
        )
        assert ("threads of BLAS: 1, now 2" in done.stderr) == told


def test_threads_are_counted_without_threadpoolctl(monkeypatch):
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    environment._thread_pools.cache_clear()
    for name in environment.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: set(range(8)))
    assert environment.blas_threads() == 8
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert environment.blas_threads() == 3
    monkeypatch.setenv("OPENBLAS_NUM_THREADS", "16")
    assert environment.blas_threads() == 8


def test_a_run_that_another_host_may_drive_gets_a_warning(tmp_path, recwarn, at_once):
    file, killed = tmp_path / "run.db", tmp_path / "killed.db"
    fun = Counted(smooth, lambda calls: calls == 50 and copied(file, killed))
    sl.minimize(fun, **options("cma", "free", None, maxfevals=80), store=file)
    driven_with(file, host="elsewhere")
    sl.resume(file, smooth, maxfevals=88)
    assert not recwarn.list  # it ended there
    driven_with(killed, host="elsewhere")
    with pytest.warns(UserWarning, match="host 'elsewhere' and did not end there"):
        sl.resume(killed, smooth)


def test_a_clock_that_jumps_does_no_harm(tmp_path, monkeypatch):
    times, file = itertools.cycle([4e9, 0.0, -1e9, 1.7e9]), tmp_path / "run.db"
    monkeypatch.setattr(time, "time", lambda: next(times))
    result = sl.minimize(terraces, **options("cma", "free", None, maxfevals=320), store=file)
    assert sl.load(file).result.fun == result.fun
    sl.resume(file, terraces, maxfevals=640)
    monkeypatch.undo()
    sl.minimize(terraces, **options("cma", "free", None), store=tmp_path / "whole.db")
    assert fingerprint(file) == fingerprint(tmp_path / "whole.db")


# Names


@pytest.mark.parametrize("name", ["", ".", "..", "/", "a\0b.db", "run.db-wal", "run.db-shm", "run.db-journal"])
def test_what_is_no_name_of_a_file_is_refused(name):
    for attempt in (
        lambda: sl.minimize(terraces, np.ones(3), 0.3, store=name),
        lambda: sl.resume(name, terraces),
        lambda: sl.load(name),
    ):
        with pytest.raises(ValueError, match="`store` must"):
            attempt()


@pytest.mark.parametrize(
    "name", [os.fsdecode(b"\xff\xfe.db"), "a?b#c%20.db", "ä ö\n.db", "-rf", "file:x.db"], ids=ascii
)
def test_unusual_names_will_do(name, tmp_path):
    file = tmp_path / name
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=81), store=file)
    assert sl.resume(file, terraces, maxfevals=161).nfev == 161
    assert sl.load(file).values.size == 161
    assert os.listdir(tmp_path) == [name]


def test_a_name_that_is_too_long_gets_a_sentence(tmp_path):
    with pytest.raises(sl.StoreError, match="Choose a name of at most 200 characters"):
        sl.minimize(terraces, **options("cma", "free", None), store=tmp_path / ("x" * 250))


# No room


LIMITED = """
import resource, sys, numpy as np, sublevel as sl
sl.minimize  # imported before the limit
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[2]), int(sys.argv[2])))
try:
    sl.minimize(lambda x: float(np.sum(x**2)), np.ones(40), 0.3, rng=1, maxfevals=20_000, store=sys.argv[1])
except sl.StoreError as error:
    print(error.sublevel_result.nfev if hasattr(error, "sublevel_result") else 0, error)
"""


@pytest.mark.parametrize("limit", [10_000, 400_000])
def test_a_limit_on_the_size_of_files_gets_a_sentence_and_the_run_goes_on_without_it(limit, tmp_path):
    file = tmp_path / "run.db"
    done = subprocess.run([sys.executable, "-c", LIMITED, file, str(limit)], capture_output=True, text=True, check=True)
    assert "ulimit -f" in done.stdout or "disk is full" in done.stdout, done.stderr
    assert "damaged" not in done.stdout
    if limit > 100_000:
        assert int(done.stdout.split()[0]) > 0
        result = sl.resume(file, lambda x: float(np.sum(x**2)))
        assert (
            result.x.tobytes()
            == sl.minimize(lambda x: float(np.sum(x**2)), np.ones(40), 0.3, rng=1, maxfevals=20_000).x.tobytes()
        )
    else:
        assert os.listdir(tmp_path) == []


IN_SMALL_SPACE = """
import os, subprocess, sys, numpy as np, sublevel as sl
folder, step = sys.argv[1:]
file = os.path.join(folder, "run.db")
def fun(x):
    return float(np.sum(x**2))
if step == "again":
    whole = sl.minimize(fun, np.ones(40), 0.3, rng=1, maxfevals=20_000)
    print(sl.resume(file, fun).x.tobytes() == whole.x.tobytes())
    sys.exit()
subprocess.run(["mount", "-t", "tmpfs", "-o", "size=300k", "tmpfs", folder], check=True)
try:
    sl.minimize(fun, np.ones(40), 0.3, rng=1, maxfevals=20_000, store=file)
except sl.StoreError as error:
    print(error)
subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
try:
    sl.resume(file, fun)
except sl.StoreError as error:
    print(error)
try:
    sl.minimize(fun, np.ones(40), 0.3, store=os.path.join(folder, "new.db"))
except sl.StoreError as error:
    print(error)
print(sl.load(file).values.size > 0)
subprocess.run(["mount", "-o", "remount,rw,size=30m", folder], check=True)
subprocess.run([sys.executable, __file__, folder, "again"], check=True)  # SQLite remembers what is read-only
"""


def can_mount():
    """Whether file systems can be mounted in a namespace of one's own."""
    try:
        probe = ["unshare", "-m", "--", "mount", "-t", "tmpfs", "tmpfs", "/mnt"]
        return sys.platform == "linux" and subprocess.run(probe, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.mark.skipif(not can_mount(), reason="needs the right to mount a small file system")
def test_a_full_and_a_read_only_disk_get_sentences_and_the_run_goes_on_when_there_is_room(tmp_path):
    (script := tmp_path / "script.py").write_text(IN_SMALL_SPACE)
    (tmp_path / "small").mkdir()
    command = ["unshare", "-m", "--", sys.executable, script, tmp_path / "small", "first"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    full, readonly, new, loaded, same = done.stdout.splitlines()
    assert "disk is full" in full
    assert "Free some space, then resume" in full
    assert "read-only" in readonly
    assert "Choose a directory in which you have write permission" in new
    assert (loaded, same) == ("True", "True")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("SQLITE_FULL", "Free some space, then resume"),
        ("SQLITE_IOERR_WRITE", "ulimit -f"),
        ("SQLITE_IOERR_FSYNC", "ulimit -f"),
        ("SQLITE_IOERR_READ", "Copy the file to another disk"),
        ("SQLITE_READONLY_DBMOVED", "read-only"),
        ("SQLITE_READONLY", "read-only"),
        ("SQLITE_CANTOPEN_ISDIR", "check the permissions"),
        ("SQLITE_BUSY_RECOVERY", "locked by another program"),
        ("SQLITE_CORRUPT", "may be damaged"),
        ("SQLITE_NOTADB", "may be damaged"),
        ("", "may be damaged"),
    ],
)
def test_every_trouble_has_a_sentence(name, words):
    error = sqlite3.OperationalError("what SQLite says")
    error.sqlite_errorname = name
    assert words in str(store_error(Path("run.db"), error))
