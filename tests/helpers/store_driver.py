"""A process that drives a stored run, to be killed. Its objective takes some milliseconds and logs every call.

python store_driver.py FILE LOG MAXFEVALS begins or resumes with two worker processes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np

import sublevel as sl

SECONDS = 0.002


class Logged:
    """An objective that logs each call before it does its work."""

    def __init__(self, log):
        self.log = str(log)

    def __call__(self, x):
        note(self.log, "call")
        time.sleep(SECONDS)
        return objective(x)


def objective(x):
    return float(np.sum(x**2 * [1, 10, 100, 1000]) + np.floor(3 * x[0]))


def note(log, word):
    """A line with the time, in one piece."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word} {time.time()}\n".encode())
    os.close(file)


def begun(fun, file, maxfevals, **how):
    """The run that is killed again and again."""
    return sl.minimize(fun, np.ones(4), 0.5, rng=3, restarts="bipop", maxfevals=maxfevals, store=file, **how)


def drive(file, log, maxfevals, workers):
    """Begin, or go on."""
    note(log, "start")
    if not Path(file).exists():
        return begun(Logged(log), file, maxfevals, workers=workers)
    return sl.resume(file, Logged(log), workers=workers, check=False)  # every call is to be accounted for


def drive_with_forks(file, log, maxfevals):
    """The same with two workers that are forked, in a process group of their own."""
    os.setpgid(0, 0)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        drive(file, log, maxfevals, pool)
        os._exit(0)


if __name__ == "__main__":
    drive(sys.argv[1], sys.argv[2], int(sys.argv[3]), 2)
