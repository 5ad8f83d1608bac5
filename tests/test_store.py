"""Stored runs: a run that was killed goes on as if nothing had happened, with no evaluation lost and none counted twice."""

from __future__ import annotations

import csv
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from sublevel import record
from sublevel.record import History
from sublevel.restarts import Run
from sublevel.store import leaves, recorder
from sublevel.store.file import File, summed
from sublevel.store.reader import fingerprint

METHODS = [f"{lra}{family}{name}" for lra in ("", "lra-") for family in ("", "sep-", "iso-") for name in ("cma", "ngd", "rank-mu", "xnes")]
BOX = {"bounds": [(-1.0, 3.0), (0.5, 20.0), (2.0, 2.0), (None, 4.0)], "log_scaled": [False, True, False, False]}
BOUNDS = {"free": {}, "bounded": BOX}
RESTARTS = [None, "ipop", "bipop"]
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
    return {"x0": x0, "sigma0": sigma0, "method": method, "restarts": restarts, "rng": 7, "maxfevals": 640, **BOUNDS[bounds], **more}


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
        assert again.calls == fun.calls - calls
        assert fingerprint(copy) == expected
        assert (resumed.nfev, resumed.nit, resumed.restarts, resumed.reasons) == (result.nfev, result.nit, result.restarts, result.reasons)
        assert resumed.x.tobytes() == result.x.tobytes()
        assert resumed.history["deviation"].tobytes() == result.history["deviation"].tobytes()
        assert resumed.diagnosis == result.diagnosis
        copy.unlink()
    return result


FEW = [
    ("cma", "free", None),
    ("lra-cma", "bounded", "bipop"),
    ("xnes", "bounded", "ipop"),
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
        sl.minimize(lambda x, value=value: terraces(x) + value * (x[0] > 0), **options("cma", "free", None, maxfevals=40), store=file)
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
    assert again.calls == result.nfev - (k - 1)
    assert fingerprint(file) == fingerprint(whole)


def test_ctrl_c_leaves_a_store_that_goes_on(tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    sl.minimize(terraces, **options("cma", "free", None), store=whole)

    def before(calls):
        if calls == 77:
            raise KeyboardInterrupt

    assert list(sl.minimize(Counted(before=before), **options("cma", "free", None), store=file).reasons) == ["interrupted"]
    assert list(sl.load(file).result.reasons) == ["interrupted"]
    sl.resume(file, terraces)
    assert fingerprint(file) == fingerprint(whole)


def test_values_of_all_kinds_come_back_as_they_were(tmp_path, at_once):
    file, values = tmp_path / "run.db", itertools.cycle([np.nan, np.inf, -0.0, 0.0, 5e-324, 1e308, -1e308, 3.5])
    sl.minimize(lambda x: next(values), np.ones(3), 0.3, rng=1, popsize=8, maxfevals=24, store=file)
    expected = [np.nan, np.inf, -0.0, 0.0, 5e-324, 1e308, -1e308, 3.5] * 3
    assert sl.load(file).values.tobytes() == np.array(expected).tobytes()


def test_a_second_driver_is_refused_at_once_and_readers_go_on(tmp_path):
    file, seen = tmp_path / "run.db", []

    def before(calls):
        if calls == 40:
            with pytest.raises(sl.StoreError, match="driven by another process"):
                sl.resume(file, terraces)
            code = f"import sublevel as sl; print(sl.load({str(file)!r}).values.size)"
            seen.append(int(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout))

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
        sl.minimize(terraces, **options("cma", "free", None), store=tmp_path / wrong if isinstance(wrong, str) else wrong)


def full_disk(self, changes, sync):
    """What writing does when there is no room."""
    with self.complaining():
        raise sqlite3.OperationalError("database or disk is full")


def test_a_full_disk_ends_the_run_with_its_result(tmp_path, monkeypatch, at_once):
    def before(calls):
        if calls == 50:
            monkeypatch.setattr(File, "write", full_disk)

    with pytest.raises(sl.StoreError, match="disk is full") as caught:
        sl.minimize(Counted(before=before), **options("cma", "free", None), store=tmp_path / "run.db")
    assert caught.value.sublevel_result.nfev >= 50


# What is given again


class Thrice:
    """A strategy that draws."""

    def runs(self, popsize, rng):
        for k in (1, 2, 3, 4):
            yield Run(5 * k, float(rng.uniform(0.5, 1.0)), 50.0)


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
    again = {"x0": drawn, "method": sl.ngd(c_cov=0.4), "restarts": Thrice()}
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
    with pytest.raises(ValueError, match="`method` must be the one that the run began with"):
        sl.resume(file, terraces, **again | {"method": sl.ngd(c_cov=0.5)})
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
    assert sl.resume(file, lambda x, a: a * np.sum(x**2), args=(2.0,), maxfevals=120).nfev == 120


def test_another_way_to_draw_starting_points_is_noticed(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 250, terraces, drawn, 0.3, restarts="ipop", rng=3)
    assert sl.load(file).evaluations.run[-1] > 0
    with pytest.raises(sl.StoreError, match="other points than were evaluated"):
        sl.resume(file, terraces, x0=lambda rng: drawn(rng) + 1)


@pytest.mark.parametrize("kind", ["PCG64", "PCG64DXSM", "SFC64", "Philox", "MT19937"])
def test_every_generator_of_numpys_goes_on(kind, tmp_path):
    file, whole = tmp_path / "run.db", tmp_path / "whole.db"
    settings = {"maxfevals": 200, "restarts": "bipop"}
    sl.minimize(terraces, np.ones(3), 0.3, rng=np.random.Generator(getattr(np.random, kind)(3)), store=whole, **settings)
    cut_short(file, 111, terraces, np.ones(3), 0.3, rng=np.random.Generator(getattr(np.random, kind)(3)), **settings)
    sl.resume(file, terraces)
    assert fingerprint(file) == fingerprint(whole)


def test_a_memory_of_other_things_than_numbers_is_refused_before_the_first_evaluation(tmp_path):
    class Odd:
        def init(self, theta, sample_size):
            return "text"

        def __call__(self, tangent, memory, theta):
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
    assert sl.minimize(terraces, **options("cma", "free", "bipop", maxfevals=100), store=file).nfev <= 100
    again = Counted()
    assert sl.resume(file, again).nfev <= 100
    assert again.calls == 0
    sl.resume(file, again, maxfevals=640)
    assert fingerprint(file) == fingerprint(whole)


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


def test_a_stored_run_can_be_read_exported_and_begun_from(tmp_path):
    import pyarrow.parquet as parquet

    file = tmp_path / "run.db"
    result = sl.minimize(lambda x: float(np.sum((x - 1) ** 2)), np.zeros(3), 0.5, rng=1, maxfevals=300, store=file)
    run = sl.load(file)
    assert (run.result.nfev, run.result.fun, run.result.message) == (result.nfev, result.fun, result.message)
    assert run.result.cov.tobytes() == result.cov.tobytes()
    assert run.points.shape == (result.nfev, 3)
    assert run.evaluations.iteration[-1] == result.nit
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
    sl.minimize(Counted(before=lambda calls: calls == 90 and copied(file, folder / "run.db")), **options("cma", "free", None), store=file)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    run = sl.load(folder / "run.db")
    assert run.result.nfev == run.values.size > 0
    assert {name: (folder / name).read_bytes() for name in before} == before


def test_points_between_two_states_are_in_the_result(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 99, terraces, **options("cma", "free", None))
    run = sl.load(file)
    assert run.result.nfev == 99
    assert run.result.fun == run.values.min() == terraces(run.result.x)
    assert len(run.result.history) == run.result.nit == 99 // 8


# The parts


def test_arrays_come_back_with_their_order_in_memory(rng):
    tree = {"a": rng.standard_normal((3, 4)), "b": (np.asfortranarray(rng.standard_normal((3, 4))), None), "c": np.float64(2.5), "d": 3}
    again = leaves.unpacked(tree, *leaves.packed(tree))
    assert again["a"].flags.c_contiguous
    assert again["b"][0].flags.f_contiguous
    np.testing.assert_array_equal(again["b"][0], tree["b"][0])
    assert (type(again["c"]), type(again["d"]), again["b"][1]) == (np.float64, int, None)


@pytest.mark.parametrize("limit", [4, 7, 16])
def test_a_long_history_is_thinned_and_restored_alike(limit, monkeypatch):
    monkeypatch.setattr(record, "ROWS", limit)
    optimizer = sl.Optimizer(np.ones(3), 0.5, restarts="ipop", popsize=4, rng=1)
    history, told = History(optimizer), []
    for _ in range(100):
        X = optimizer.ask()
        optimizer.tell(X, [terraces(x) for x in X])
        history.see(optimizer)
        told.append((*history.last, history.last_run, len(X)))
        optimizer.stop()
        table = np.array(told)
        seen = record.Generations(table[:, :4], table[:, 4].astype(int), table[:, 5].astype(int))
        again = History.restored(optimizer.start, history.snapshots, history.pace, seen)
        apart = {"last": 0, "_endings": 0, "theta_of_best": 0}
        assert again.__dict__ | apart == history.__dict__ | apart
        assert history.last_run + 1 <= len(history) <= max(limit, history.last_run + 1)
    assert history.last_run > 1
    assert history["nfev"][-1] == optimizer.nfev
    assert history["generation_best"].min() == min(row[2] for row in told)
    assert [run.fun for run in history.runs] == [min(row[2] for row in told if row[4] == run) for run in range(history.last_run + 1)]


def shift_points(file, factor):
    """Multiply the points of the last generation, as if another machine had made them."""
    with sqlite3.connect(file) as connection:
        iteration, run, points, values, _ = connection.execute("SELECT * FROM evaluations ORDER BY iteration DESC").fetchone()
        row = summed(iteration, run, (np.frombuffer(points) * factor).tobytes(), values)
        connection.execute("INSERT OR REPLACE INTO evaluations VALUES (?, ?, ?, ?, ?)", row)
    connection.close()


def test_a_machine_that_rounds_differently_goes_on_with_a_warning(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    shift_points(file, 1 + 2**-50)
    with pytest.warns(UserWarning, match="rounds differently"):
        assert sl.resume(file, smooth, maxfevals=120).nfev == 120


def test_points_of_another_run_are_noticed(tmp_path, monkeypatch):
    keep_state(monkeypatch, always=False)
    file = tmp_path / "run.db"
    cut_short(file, 99, smooth, **options("cma", "free", None))
    shift_points(file, 1.01)
    with pytest.raises(sl.StoreError, match="other points than were evaluated"):
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


def test_parquet_says_what_it_needs(tmp_path, monkeypatch):
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=16), store=tmp_path / "run.db")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(sl.StoreError, match=r"sublevel\[parquet\]"):
        sl.load(tmp_path / "run.db").export(tmp_path / "run.parquet")


def test_a_run_can_be_read_where_nobody_can_write(tmp_path, monkeypatch):
    sl.minimize(terraces, **options("cma", "free", None, maxfevals=16), store=tmp_path / "run.db")
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert sl.load(tmp_path / "run.db").values.size == 16


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
    assert sl.minimize(two_valleys, starts, 0.5, restarts=2, rng=1, maxfevals=began[2] + 30, store=tmp_path / "run.db").restarts == 2
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
    again, whole = sl.resume(tmp_path / "run.db", fun, maxfevals=400), sl.minimize(fun, np.ones(3), 0.5, rng=1, maxfevals=400)
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
        sl.resume(tmp_path / "run.db", better_then_dead, maxfevals=3000)
    found = sl.load(tmp_path / "run.db").result
    assert found.fun < -90
    assert not found.success
    assert "is from run" not in found.message
