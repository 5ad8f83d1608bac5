"""Python without processes, threads and hard links, as in a browser (Pyodide)."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

BROWSER = """
import os
import sys
import threading

import matplotlib.pyplot  # may start a timer when it is imported first


def refuse(thread):
    raise RuntimeError("can't start new thread")


threading.Thread.start = refuse
sys.modules["_multiprocessing"] = sys.modules["_posixshmem"] = None
for name in [name for name in sys.modules if name.startswith("multiprocessing")]:
    del sys.modules[name]
del os.link, os.sched_getaffinity

import numpy as np
import sublevel as sl


def valley(x):
    return float((x[0] - 1) ** 2 + 10 * (x[1] - x[0]) ** 2)


def refusal(call):
    try:
        call()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


"""


def in_a_browser(code, folder):
    """What a program prints that runs as in a browser."""
    done = subprocess.run(
        [sys.executable, "-c", BROWSER + textwrap.dedent(code)], cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


PROGRAMS = {
    "minimize": """
        result = sl.minimize(valley, [0, 0], 0.5, rng=1, ftarget=1e-8)
        print(result.success)
        """,
    "curvature": """
        result = sl.minimize(valley, [0, 0], 0.5, rng=1)
        print(np.allclose(sl.curvature(valley, result).hessian, [[22, -20], [-20, 20]], rtol=1e-6))
        """,
    "shape": """
        result = sl.minimize(valley, [0, 0], 0.5, rng=1)
        print(sl.shape_from_ranks(valley, result, iterations=20, rng=1).iterations == 20)
        """,
    "space and surrogate": """
        space = sl.Space(a=sl.Real(-1, 1), n=sl.Integer(0, 3), kind=sl.Choice("p", "q"))
        found = sl.minimize(lambda p: p["a"] ** 2 + p["n"] + (p["kind"] == "p"), space, rng=1, maxfevals=1000)
        model = sl.minimize(valley, [0, 0], 0.5, rng=1, surrogate=True, maxfevals=100)
        print(found.fun < 1e-3 and model.fun < 1)
        """,
    "store": """
        sl.minimize(valley, [0, 0], 0.5, rng=1, store="run.db", maxfevals=50)
        resumed = sl.resume("run.db", valley, maxfevals=100)
        run = sl.load("run.db")
        run.export("run.npz")
        straight = sl.minimize(valley, [0, 0], 0.5, rng=1, maxfevals=100)
        print(resumed.fun == run.result.fun == straight.fun and len(np.load("run.npz")["value"]) == 100)
        """,
    "plots": """
        result = sl.minimize(valley, [0, 0], 0.5, rng=1, curvature=True)
        result.plot().savefig("run.png")
        result.curvature.plot().savefig("curvature.png")
        print(os.path.getsize("run.png") > 0 and os.path.getsize("curvature.png") > 0)
        """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_works_without_processes_and_threads(name, tmp_path):
    assert in_a_browser(PROGRAMS[name], tmp_path) == ["True"]


def test_worker_processes_are_refused_with_a_reason(tmp_path):
    program = """
        print(refusal(lambda: sl.minimize(valley, [0, 0], 0.5, workers=2)))
        print(refusal(lambda: sl.minimize(valley, [0, 0], 0.5, timeout=1.0)))
        print(refusal(lambda: sl.curvature(valley, sl.minimize(valley, [0, 0], 0.5, rng=1), workers=-1)))
        """
    for said in in_a_browser(program, tmp_path):
        assert said.startswith("WorkerLost: `workers` and `timeout` need worker processes, which this Python cannot")
        assert said.endswith("Use workers=1 without `timeout`.")
        assert "_multiprocessing" in said
