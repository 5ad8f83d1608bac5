"""A process that drives a stored run, to be killed. Its objective takes some milliseconds and logs every call.

python store_driver.py FILE LOG MAXFEVALS PROBLEM begins or resumes with two worker processes.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import NamedTuple

import numpy as np

import sublevel as sl

SECONDS = 0.002


class Logged:
    """An objective that logs each call before it does its work."""

    def __init__(self, log, objective):
        self.log, self.objective = str(log), objective

    def __call__(self, x):
        note(self.log, "call")
        time.sleep(SECONDS)
        return self.objective(x)


def objective(x):
    return float(np.sum(x**2 * [1, 10, 100, 1000]) + np.floor(3 * x[0]))


def constrained(p):
    """The cost of a mixed design, and a capacity that it must have."""
    cost = p["n"] * p["d"] ** 2 * (1 if p["grade"] == "a" else 1.2) + 0.1 * p["n"] + np.log(p["c"]) ** 2
    return cost, [8 - p["n"] * p["d"] ** 2 * (1.0 if p["grade"] == "a" else 1.6)]


SPACE = sl.Space(n=sl.Integer(1, 12), d=sl.Real(0.2, 4), grade=sl.Choice("a", "b", "c"), c=sl.Real(0.01, 100, log=True))


class Problem(NamedTuple):
    """What a run minimises, how it begins, and what is given again when it is resumed."""

    objective: object
    start: tuple[object, ...]
    is_constrained: bool

    @property
    def again(self):
        """The constraints; SciPy's optimizers are imported for them only, because it takes a while."""
        if not self.is_constrained:
            return {}
        from scipy.optimize import LinearConstraint

        return {"constraints": [1, LinearConstraint([[1, 1, 0, 0]], -np.inf, 14)]}


PROBLEMS = {
    "numbers": Problem(objective, (np.ones(4), 0.5), False),
    "constrained": Problem(constrained, (SPACE,), True),
}


def note(log, word):
    """A line with the time, in one piece."""
    file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(file, f"{word} {time.time()}\n".encode())
    os.close(file)


def begun(fun, file, maxfevals, problem, **how):
    """The run that is killed again and again."""
    settings = {"rng": 3, "restarts": "bipop", "maxfevals": maxfevals, "store": file, **PROBLEMS[problem].again}
    return sl.minimize(fun, *PROBLEMS[problem].start, **settings, **how)


def drive(file, log, maxfevals, problem, workers):
    """Begin, or go on."""
    note(log, "start")
    fun = Logged(log, PROBLEMS[problem].objective)
    if not Path(file).exists():
        return begun(fun, file, maxfevals, problem, workers=workers)
    again = PROBLEMS[problem].again
    return sl.resume(file, fun, workers=workers, check=False, **again)  # every call is to be accounted for


def drive_with_forks(file, log, maxfevals, problem):
    """The same with two workers that are forked, in a process group of their own."""
    os.setpgid(0, 0)
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("fork")) as pool:
        drive(file, log, maxfevals, problem, pool)
        os._exit(0)


if __name__ == "__main__":
    drive(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4], 2)
