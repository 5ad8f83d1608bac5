"""100,000 variables: diagonal and isotropic searches make no dense matrix, whatever is done with them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl

SCRIPT = Path(__file__).parent / "many_variables.py"
ROUTES = ["each_method", "kept_by_callbacks", "bounds_and_logarithms", "shards", "refusals", "warm_start"]


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
