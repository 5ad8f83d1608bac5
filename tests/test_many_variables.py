"""100,000 variables: diagonal and isotropic searches make no dense matrix, whatever is done with them."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from sublevel.cli.main import main
from sublevel.store import export, reader
from sublevel.store.errors import StoreError

SCRIPT = Path(__file__).parent / "helpers" / "many_variables.py"
ROUTES = [
    "each_method",
    "kept_by_callbacks",
    "bounds_and_logarithms",
    "shards",
    "refusals",
    "warm_start",
    "files",
    "pictures",
]


def test_many_variables_take_less_than_a_gigabyte():
    run = subprocess.run([sys.executable, str(SCRIPT), *ROUTES], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout.split()[-1]) < 1000


def sphere(x):
    return np.vecdot(x, x)


@pytest.mark.parametrize("method", ["sep-cma", "iso-cma", "cma"])
def test_a_short_run_computes_no_principal_axes(method, monkeypatch):
    """They take O(d³) for a full covariance, and a signal is not heard meanwhile."""

    def refuse(*args, **kwargs):
        raise AssertionError("an SVD that costs more than the run")

    monkeypatch.setattr(np.linalg, "svd", refuse)
    result = sl.minimize(sphere, np.ones(400), 0.3, method=method, maxiter=3, rng=1, vectorized=True)
    assert result.diagnosis == []


@pytest.mark.slow
def test_minimize_takes_no_longer_than_ask_and_tell():
    """The best of five, in turns: 3000 variables, 5 generations."""

    def ask_and_tell():
        opt = sl.Optimizer(np.ones(3000), 0.3, method="sep-cma", rng=1)
        for _ in range(5):
            X = opt.ask()
            opt.tell(X, sphere(X))

    def minimize():
        return sl.minimize(sphere, np.ones(3000), 0.3, method="sep-cma", rng=1, maxiter=5, vectorized=True).diagnosis

    def seconds(function):
        began = time.perf_counter()
        function()
        return time.perf_counter() - began

    pairs = [(seconds(ask_and_tell), seconds(minimize)) for _ in range(15)]
    plain, whole = np.min(pairs, axis=0)
    assert whole < 1.5 * plain


@pytest.fixture(scope="module")
def killed(tmp_path_factory):
    """A file of a run with restarts that an interrupt ended in mid-generation."""
    file, calls = tmp_path_factory.mktemp("killed") / "run.db", iter(range(333))

    def interrupted(x):
        if next(calls, None) is None:
            raise KeyboardInterrupt
        return sphere(x)

    sl.minimize(interrupted, np.ones(4), 0.5, rng=1, store=file)
    return file


def test_points_that_stay_in_the_file_are_those_that_were_read_with_it(killed, tmp_path, monkeypatch):
    whole = sl.load(killed)
    assert whole.evaluations.kept is not None
    assert len(whole.values) == 333
    monkeypatch.setattr(reader, "MOST_KEPT", 100)
    apart = sl.load(killed)
    assert apart.evaluations.kept is None
    assert apart.result.x.tobytes() == whole.result.x.tobytes()
    assert apart.points.tobytes() == whole.points.tobytes()
    for ending in ("csv", "npz", "parquet"):
        files = [tmp_path / f"{name}.{ending}" for name in ("whole", "apart")]
        for run, file in zip((whole, apart), files, strict=True):
            run.export(file)
        if ending != "npz":  # which holds times
            assert files[0].read_bytes() == files[1].read_bytes()
    with np.load(tmp_path / "apart.npz") as arrays:
        assert arrays["x"].tobytes() == whole.points.tobytes()
        assert arrays["value"].tobytes() == whole.values.tobytes()
        assert arrays["iteration"].tolist() == whole.evaluations.iteration.tolist()
        assert arrays["names"].tolist() == ["x0", "x1", "x2", "x3"]
    assert apart.points.tobytes() == whole.points.tobytes()


def test_a_run_that_goes_on_does_not_change_what_was_loaded(killed, tmp_path, monkeypatch):
    file = tmp_path / "run.db"
    shutil.copy(killed, file)
    before = sl.load(file).points.tobytes()
    monkeypatch.setattr(reader, "MOST_KEPT", 100)
    loaded, gone = sl.load(file), sl.load(file)
    sl.resume(file, sphere, maxfevals=600)
    assert len(sl.load(file).values) > len(loaded.values)
    assert loaded.points.tobytes() == before
    file.unlink()
    with pytest.raises(StoreError, match=r"run\.db"):
        gone.points.sum()


def test_show_prints_a_few_of_very_many_numbers(tmp_path, capsys):
    sl.minimize(
        sphere, np.ones(1001), 0.5, method="sep-cma", maxiter=2, rng=1, vectorized=True, store=tmp_path / "run.db"
    )
    main(["show", str(tmp_path / "run.db")])
    shown = capsys.readouterr().out
    assert "and 991 more" in shown
    assert len(shown) < 2000


def test_a_csv_file_of_too_many_columns_has_no_variables_unless_they_are_asked_for(
    killed, tmp_path, monkeypatch, capsys
):
    run, out = sl.load(killed), tmp_path / "run.csv"
    run.export(out)
    whole = out.read_bytes()
    monkeypatch.setattr(export, "MOST_CSV_COLUMNS", 7)  # there are four keys and four variables
    with pytest.warns(UserWarning, match=r"4 variables.*\.npz or \.parquet.*variables=True"):
        run.export(out)
    short = [",".join(line.split(",")[:4]) for line in whole.decode().splitlines()]
    assert out.read_text().splitlines() == short
    assert main(["export", str(killed), str(tmp_path / "cli.csv")]) == 0
    assert (tmp_path / "cli.csv").read_text().splitlines() == short
    assert "--variables" in capsys.readouterr().err
    assert main(["export", str(killed), str(tmp_path / "all.csv"), "--variables"]) == 0
    run.export(out, variables=True)
    assert out.read_bytes() == (tmp_path / "all.csv").read_bytes() == whole
    assert not capsys.readouterr().err
    run.export(tmp_path / "run.npz")
    with np.load(tmp_path / "run.npz") as arrays:
        assert arrays["x"].tobytes() == run.points.tobytes()
