"""Samples that are stored as what they were drawn with, where the search is not alone with its generator."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import numpy as np
import pytest

import sublevel as sl
from sublevel.store import recorder, samples


@pytest.fixture
def shared_rows(monkeypatch):
    """Samples are drawn again when they are read, and share rows, which are written at the end."""
    monkeypatch.setattr(samples, "FAST", 1e3)
    monkeypatch.setattr(recorder, "WRITING", 0.0)
    for name in ("USUAL_WAIT", "LONGEST_WAIT", "REPLAY", "SELDOM"):
        monkeypatch.setattr(recorder, name, np.inf if name in ("REPLAY", "SELDOM") else 60.0)


@pytest.mark.parametrize(("who", "rows"), [("nobody", 1), ("the objective", 9), ("the callback", 9)])
def test_points_are_those_that_were_evaluated_whoever_else_draws(who, rows, shared_rows, tmp_path):
    """A sample continues a row only if nobody has drawn since the one before: here after every third."""
    rng, seen, file = np.random.default_rng(1), [], tmp_path / "run.db"

    def fun(X):
        seen.append(X.copy())
        return np.sum(X**2, axis=1) + (1e-3 * rng.standard_normal() if who == "the objective" and len(seen) % 3 else 0)

    def callback(result):
        if who == "the callback" and len(seen) % 3:
            rng.standard_normal()

    given = {"popsize": 128, "maxiter": 12, "vectorized": True, "callback": callback}
    sl.minimize(fun, np.ones(4), 0.5, rng=rng, store=file, **given)
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT count(*) FROM samples").fetchone() == (rows,)
        assert connection.execute("SELECT sum(length(points)) FROM evaluations").fetchone() == (0,)
    assert sl.load(file).points.tobytes() == np.concatenate(seen).tobytes()
