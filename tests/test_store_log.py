"""The write-ahead log next to a stored run: what it takes on the disk."""

from __future__ import annotations

import os

import numpy as np
import pytest

import sublevel as sl
from sublevel.store import file, recorder

MEGABYTE = 2**20


class Watched:
    """An objective that notes the largest size of the files of its run."""

    def __init__(self, path, fun):
        self.path, self.fun, self.log, self.file = path, fun, 0, 0

    def __call__(self, x):
        self.log = max(self.log, os.path.getsize(f"{self.path}-wal"))
        self.file = max(self.file, os.path.getsize(self.path))
        return self.fun(x)


def bumps(x):
    """A function on which a search goes on for long."""
    return np.sum(x**2, axis=-1) + np.sum(np.floor(1e3 * x) % 7, axis=-1)


def test_the_log_of_a_small_run_is_small(tmp_path, monkeypatch):
    """Each value that is written alone takes a page of the log, so that it grows faster than the file."""
    monkeypatch.setattr(recorder, "WRITING", 1e9)
    fun = Watched(path := tmp_path / "run.db", bumps)
    result = sl.minimize(fun, np.ones(5), 0.5, rng=1, maxfevals=2500, noise_floor=False, store=path)
    assert result.nfev == 2500
    assert fun.file < MEGABYTE
    assert MEGABYTE < fun.log < 1.1 * file.LEAST_LOG < 5 * MEGABYTE


@pytest.mark.parametrize("popsize", [1000, 20_000])
def test_the_log_takes_no_more_than_the_file_or_its_least_size(popsize, tmp_path, monkeypatch):
    """The file of a large run is rewritten less often, and a long transaction leaves no long log."""
    monkeypatch.setattr(recorder, "SELDOM", 0.0)
    fun = Watched(path := tmp_path / "run.db", bumps)
    given = {"vectorized": True, "constraints": {"type": "ineq", "fun": lambda X: 9 - X[:, 0]}}  # points are stored
    sl.minimize(fun, np.ones(5), 0.5, rng=1, popsize=popsize, maxfevals=200_000, noise_floor=False, store=path, **given)
    assert fun.file > MEGABYTE  # a part of the log was moved into it
    assert fun.log < 1.2 * os.path.getsize(path)
