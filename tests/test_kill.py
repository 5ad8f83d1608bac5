"""kill -9 at random times: what was evaluated is there, what was not is evaluated once, and the end is that of a run in
peace.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import sublevel as sl
from helpers import store_driver
from sublevel.store.fingerprint import fingerprint

WORKERS = 2
PATIENCE = 120.0


class Forked:
    """A driver forked from a process that has imported everything."""

    def __init__(self, *arguments):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["helpers.store_driver"])
        self.process = context.Process(target=store_driver.drive_with_forks, args=arguments)
        self.process.start()

    def kill(self, alone):
        """The driver, alone or with its workers; how many evaluations its pool may still have had: two at work, three
        waiting for them.
        """
        if not alone:
            self.tidy()
        with contextlib.suppress(ProcessLookupError):  # also if it has no group of its own yet
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.join()
        return 5 if alone else WORKERS

    @property
    def exitcode(self):
        return self.process.exitcode

    def wait(self):
        self.process.join(PATIENCE)
        return self.process.exitcode

    def tidy(self):
        """End the orphans: a pool that is forked does not notice that its owner is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)


class Fresh:
    """A driver started afresh, whose worker processes are ours and end by themselves."""

    def __init__(self, *arguments):
        command = [sys.executable, store_driver.__file__, *map(str, arguments)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE)

    @property
    def exitcode(self):
        return self.process.poll()

    def kill(self, alone):
        self.process.kill()
        self.process.communicate()
        return WORKERS

    def wait(self):
        _, errors = self.process.communicate(timeout=PATIENCE)
        assert self.process.returncode == 0, errors.decode()
        return self.process.returncode

    def tidy(self):
        pass


def times(log, word, since=0):
    """When something happened, by the log from this byte on."""
    if not log.exists():
        return []
    with log.open("rb") as file:
        file.seek(since)
        lines = [line.split() for line in file.read().decode().splitlines()]
    return [float(when) for what, when in lines if what == word]


def wait_for(condition):
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.002)


def check_values(run, problem):
    """The last stored values are those of their points, and so are the constraint values."""
    fun = store_driver.PROBLEMS[problem].objective
    if problem == "numbers":
        assert all(fun(x) == value for x, value in zip(run.points[-20:], run.values[-20:], strict=True))
        return
    for x, value, g in zip(run.points[-20:], run.values[-20:], run.constraints[-20:], strict=True):
        assert fun(run.space.decode(x)) == (value, g.tolist())


def check_kills(folder, driver, kills, maxfevals, longest, seed, problem="numbers"):
    """A run that is killed again and again and resumed each time ends as one that was not."""
    rng = np.random.default_rng(seed)
    file, log, whole = folder / "run.db", folder / "log", folder / "whole.db"
    store_driver.begun(store_driver.PROBLEMS[problem].objective, whole, maxfevals, problem)
    late, in_flight = [], 0
    for kill in range(kills):
        size = log.stat().st_size if log.exists() else 0
        running = driver(file, log, maxfevals, problem)
        if kill % 4:  # somewhere in its work; else anywhere, also before it has begun
            wait_for(lambda size=size, running=running: times(log, "call", size) or running.exitcode is not None)
            late.append(times(log, "call", size)[0] - times(log, "start", size)[0])
        time.sleep(rng.uniform(0, longest))
        assert running.exitcode is None  # or there is nothing left to kill
        in_flight += running.kill(alone=kill % 2 == 0)
        if file.exists():
            run = sl.load(file)
            keys = list(zip(run.evaluations.iteration.tolist(), run.evaluations.place.tolist(), strict=True))
            assert len(set(keys)) == len(keys) == run.values.size
            check_values(run, problem)
        running.tidy()
    running = driver(file, log, maxfevals, problem)
    assert running.wait() == 0
    running.tidy()
    assert fingerprint(file) == fingerprint(whole)
    extra = len(times(log, "call")) - sl.load(file).values.size
    assert 0 <= extra <= in_flight
    return extra, np.array(late)


@pytest.mark.parametrize(("problem", "kills"), [("numbers", 20), ("constrained", 8)])
def test_kills(problem, kills, tmp_path, monkeypatch):
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join([*sys.path, os.environ.get("PYTHONPATH", "")])
    )  # for the process that forks
    extra, _ = check_kills(tmp_path, Forked, kills, maxfevals=1500, longest=0.08, seed=1, problem=problem)
    assert extra > 0  # some evaluation was under way when it was killed, or the test is none


@pytest.mark.slow
@pytest.mark.parametrize(("problem", "kills"), [("numbers", 100), ("constrained", 30)])
def test_many_kills_of_a_driver_with_two_worker_processes(problem, kills, tmp_path):
    extra, late = check_kills(tmp_path, Fresh, kills, maxfevals=600 * kills, longest=0.5, seed=2, problem=problem)
    slow = np.count_nonzero(late > 1.0)
    print(
        f"extra executions {extra}, restart {np.median(late):.2f} s, at most {late.max():.2f} s, {slow} of "
        f"{late.size} above 1 s"
    )
    if problem == "numbers":  # SciPy's optimizers need not be imported
        assert np.median(late) < 1.0


def test_drivers_log_their_calls(tmp_path):
    store_driver.drive(tmp_path / "run.db", tmp_path / "log", 30, "numbers", 1)
    assert len(times(tmp_path / "log", "call")) == sl.load(tmp_path / "run.db").values.size == 30
    assert Path(store_driver.__file__).exists()
