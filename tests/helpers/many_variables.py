"""All that can be done with a run of 100,000 variables, in a process that may take a limited amount of memory; prints
the peak in MB.
"""

from __future__ import annotations

import copy
import os
import pickle
import resource
import sys
import tempfile
from pathlib import Path

LIMIT = 3 * 2**30
"""Bytes of address space: a dense matrix of 100,000 variables takes 80 GB, and fails at once."""
os.environ["MPLBACKEND"] = "Agg"
resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))

import numpy as np  # noqa: E402
import pytest  # noqa: E402

import sublevel as sl  # noqa: E402
from sublevel.cli.main import main  # noqa: E402

D = 100_000
BOUNDS = [(-1, 1)] * (D - 1) + [(1, 1)]


def sphere(x):
    """Of points (..., d)."""
    return np.vecdot(x, x)


def result_of(method, **given):
    """A short run."""
    given = {"rng": 1, "maxiter": 2, "popsize": 8, "vectorized": True} | given
    x0, sigma0 = (np.full(D, 0.5), None) if method == "pbil" else (np.ones(D), 0.3)
    return sl.minimize(sphere, x0, sigma0, method=method, **given)


def look_at(result):
    """All that is said of it without a matrix."""
    assert result.x.shape == result.mean.shape == result.std.shape == (D,)
    assert result.distribution.principal_axes().size == result.distribution.dimension
    assert len(repr(result)) < 10_000
    assert isinstance(result.diagnosis, list)
    assert result.history.trace().axes.shape[1] == result.distribution.dimension
    assert pickle.loads(pickle.dumps(result)).fun == copy.copy(result).fun == result.fun


def each_method():
    for method in ("sep-cma", "iso-cma", "sep-xnes", "iso-rank-mu", "sep-ngd", "lra-sep-cma", "pbil"):
        look_at(result_of(method))


def kept_by_callbacks():
    kept = []
    result_of("sep-cma", callback=kept.append, restarts=1, progress=True)
    look_at(kept[0])


def bounds_and_logarithms():
    result = result_of("sep-cma", bounds=BOUNDS, log_scaled=np.arange(D) < 0)
    assert result.std[-1] == 0
    assert result.distribution.dimension == D - 1


def shards():
    for method in ("sep-cma", "iso-xnes", "lra-sep-rank-mu"):
        look_at(sl.minimize_sharded(sphere, np.ones(D), 0.3, method=method, popsize=20, shards=3, rng=1, maxiter=2))


def refusals():
    result = result_of("sep-cma")
    with pytest.raises(ValueError, match="at most 10000 variables"):
        sl.curvature(sphere, result)
    with pytest.raises(ValueError, match="at most 10000 variables"):
        result_of("sep-cma", curvature=True)
    with pytest.raises(ValueError, match="pass correlations=False"):
        sl.warm_start(np.arange(3.0 * D).reshape(3, D), np.arange(3.0))


def warm_start():
    points = np.random.default_rng(1).standard_normal((20, D))
    x0, sigma0, cov0 = sl.warm_start(points, sphere(points), correlations=False)
    assert cov0 is None
    assert sl.minimize(sphere, x0, sigma0, method="sep-cma", cov0=cov0, maxiter=2, rng=1).nit == 2


def files():
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "run.db"
        result = result_of("sep-cma", bounds=BOUNDS, store=file, popsize=30, maxiter=4)
        further = sl.resume(file, sphere, maxiter=6, vectorized=True)
        assert further.fun <= result.fun
        run = sl.load(file)
        look_at(run.result)
        assert len(run.values) == 180
        assert run.evaluations.kept is None
        for command in (
            ["show", file],
            ["show", "--json", file],
            ["watch", file],
            ["runs", directory],
            ["report", file],
        ):
            assert main(list(map(str, command))) == 0
        assert main(["export", str(file), str(Path(directory) / "run.npz")]) == 0


def pictures():
    result = result_of("sep-cma")
    with tempfile.TemporaryDirectory() as directory:
        result.plot(Path(directory) / "run.png")


for route in sys.argv[1:]:
    globals()[route]()
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
