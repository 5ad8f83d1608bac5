"""The benchmark of reliability: its table is large, its rules tell good ends from bad ones, and its supervision sees
what happens.
"""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
SOURCES = Path(__file__).parent.parent / "src"
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the benchmark needs Linux")


@pytest.fixture
def faults(monkeypatch):
    """A module of the benchmark by its name."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    return lambda name: importlib.import_module(f"faults.{name}")


def python(*arguments):
    """What a new interpreter says that finds the benchmark and these sources."""
    path = os.pathsep.join([str(BENCHMARKS), str(SOURCES)])
    environment = {**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, *arguments], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout


# ---------------------------------------------------------------------------------------------------- the table


def test_there_are_150_cases_of_many_kinds_and_no_two_have_one_name(faults):
    cases = faults("cases").CASES
    assert len(cases) >= 150
    assert len({(case.group, case.name) for case in cases}) == len(cases)
    assert len(faults("cases").GROUPS) >= 10


def test_every_case_can_be_met_and_has_an_objective(faults):
    behaviours, features = faults("objectives").BEHAVIOURS, faults("library").ALL
    for case in faults("cases").CASES:
        assert case.right
        assert case.behaviour in behaviours
        assert set(case.needs) <= features


# ---------------------------------------------------------------------------------------------------- the rules


def seen_as(faults, seen, **rules):
    verdict = faults("verdict")
    return verdict.outcome(seen(verdict), verdict.Rules(**rules))


ENDINGS = {
    "right": (lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, True)), {}, "WORKS"),
    "right without a word": (lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, None)), {}, "WORKS"),
    "far": (lambda v: v.Seen(answer=v.Answer([1.0, 1.0], 6.25, True)), {}, "GARBAGE"),
    "far and said": (lambda v: v.Seen(answer=v.Answer([1.0, 1.0], 6.25, False)), {}, "NO_SUCCESS"),
    "far and unsaid": (lambda v: v.Seen(answer=v.Answer([1.0, 1.0], 6.25, None)), {}, "UNSAID"),
    "infinite without a word": (lambda v: v.Seen(answer=v.Answer([1.0, 1.0], float("inf"), None)), {}, "NO_SUCCESS"),
    "another value": (lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.001, True)), {}, "GARBAGE"),
    "NaN": (lambda v: v.Seen(answer=v.Answer([float("nan")] * 2, 0.0, True)), {}, "GARBAGE"),
    "infinite value": (
        lambda v: v.Seen(answer=v.Answer([0.3, -0.2], float("-inf"), True)),
        {"anywhere": True},
        "GARBAGE",
    ),
    "outside": (
        lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, True)),
        {"bounds": [(0.4, 1.0), (-1.0, 1.0)]},
        "GARBAGE",
    ),
    "clear": (lambda v: v.Seen(raised=v.Raised("ValueError", "`x0` is NaN", 0)), {"words": ("x0",)}, "CLEAR"),
    "unclear": (lambda v: v.Seen(raised=v.Raised("ValueError", "bad operand", 0)), {"words": ("x0",)}, "UNCLEAR"),
    "late": (lambda v: v.Seen(raised=v.Raised("ValueError", "`x0` is NaN", 1)), {"words": ("x0",)}, "LATE"),
    "all kept": (
        lambda v: v.Seen(raised=v.Raised("Own", "own", 20, kept=19), finished=19),
        {"counts": True},
        "STOPPED",
    ),
    "one lost": (lambda v: v.Seen(raised=v.Raised("Own", "own", 20, kept=18), finished=19), {"counts": True}, "LOST"),
    "nothing kept": (lambda v: v.Seen(raised=v.Raised("Own", "own", 20), finished=19), {"counts": True}, "LOST"),
    "in flight": (
        lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, True, 100), finished=101, repeated=1),
        {"counts": True, "in_flight": 1},
        "WORKS",
    ),
    "made again": (
        lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, True, 100), finished=100, repeated=1),
        {"counts": True},
        "LOST",
    ),
    "not counted": (
        lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, True, 99), finished=100),
        {"counts": True},
        "LOST",
    ),
    "interrupted": (
        lambda v: v.Seen(answer=v.Answer([1.0, 1.0], 6.25, False, 30), finished=30),
        {"ends": True, "counts": True},
        "STOPPED",
    ),
    "terminated": (lambda v: v.Seen(died="SIGTERM", finished=30), {"ends": True, "counts": True}, "LOST"),
    "segfault": (lambda v: v.Seen(died="SIGSEGV"), {}, "CRASH"),
    "no end": (lambda v: v.Seen(is_late=True, answer=None), {}, "HANG"),
    "executed": (
        lambda v: v.Seen(ran_code=True, raised=v.Raised("E", "damaged", 0)),
        {"words": ("damaged",)},
        "EXECUTED",
    ),
    "other numbers": (
        lambda v: v.Seen(answer=v.Answer([0.3, -0.2], 0.0, True), differs=True),
        {"anywhere": True},
        "GARBAGE",
    ),
}


@pytest.mark.parametrize("name", ENDINGS)
def test_an_ending_is_called_what_it_is(faults, name):
    seen, rules, expected = ENDINGS[name]
    assert seen_as(faults, seen, **rules).name == expected


# ---------------------------------------------------------------------------------------------------- the supervision


def test_points_are_repeated_if_they_were_finished_before_a_kill(faults):
    repeated = faults("play").repeated
    points = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0], [2.0, 2.0], [0.0, 0.0]])
    assert repeated(points, [0]) == 0
    assert repeated(points, [0, 2]) == 2
    assert repeated(points, [0, 3, 4]) == 1


WAITING = """
import os, time
from faults.supervise import OwnTime

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
clock = OwnTime()
spinners = []
for _ in range(4):
    if (pid := os.fork()) == 0:
        while True:
            pass
    spinners.append(pid)
began = time.monotonic()
while time.monotonic() - began < 1.5:
    time.sleep(0.05)
    own = clock.now()
for pid in spinners:
    os.kill(pid, 9)
    os.waitpid(pid, 0)
reader, writer = os.pipe()
if (pid := os.fork()) == 0:
    os.write(writer, b"here")
    time.sleep(100)
os.read(reader, 4)
time.sleep(0.2)
idle = OwnTime()
time.sleep(0.6)
print(own < 0.9, idle.now() > 0.5)
os.kill(pid, 9)
"""


def test_time_that_is_spent_waiting_for_a_processor_does_not_count():
    assert python("-c", WAITING).split() == ["True", "True"]


SCRIPT = """
import os, subprocess, sys, tempfile, time
from pathlib import Path
from faults.supervise import Phase, supervised
from faults.objectives import Objective, killed
from faults.verdict import Answer

folder = Path(tempfile.mkdtemp())
fun = Objective(folder)

def evaluated():
    values = [fun([0.0, 0.0]), fun([1.0, 1.0]), fun([0.3, 0.3])]
    return Answer([1.0, 1.0], values[1], True, 3)

def leaves_a_child():
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"], start_new_session=True)
    return Answer(None, None, None)

def fails():
    fun([2.0, 2.0])
    raise ValueError("no")

returned = supervised(Phase(evaluated, 30.0), folder)
print(returned.answer.fun, returned.finished)
raised = supervised(Phase(fails, 30.0), folder).raised
print(raised.kind, raised.message, raised.calls)
print(supervised(Phase(lambda: time.sleep(100), 0.3), folder).is_late)
print(supervised(Phase(killed, 30.0), folder).died, supervised(Phase(lambda: os._exit(5), 30.0), folder).died)
print(supervised(Phase(leaves_a_child, 30.0), folder).orphans)
"""


def test_a_supervisor_sees_answers_errors_hangs_deaths_and_what_is_left_behind():
    assert python("-c", SCRIPT).splitlines() == ["6.25 3", "ValueError no 4", "True", "SIGKILL exit code 5", "1"]


# ---------------------------------------------------------------------------------------------------- some of the cases

HANDFUL = {
    "x0: x0 = [nan, 1]": "clear error",
    "x0: x0 = ints": "works",
    "values: objective returns −inf": "no success",
    "values: objective returns None": "error later",
    "exceptions: OSError at evaluation 20": "stopped, all kept",
    "signals: SIGTERM": "stopped, all kept",
    "kill -9 and resume: kill -9 at evaluation 9, then resume": "works",
    "files: a pickle that does something": "clear error",
    "values: objective forks": "works",
    "surroundings: two workers in a daemonic process (multiprocessing.Pool)": "clear error",
    "surroundings: executor is shut down": "stopped, all kept",
    "stored runs: a leftover journal of another run": "clear error",
    "stored runs: the file is deleted during the run": "stopped, all kept",
}
CONTROL = {
    "x0: x0 = ints": "works",
    "exceptions: OSError at evaluation 20": "evaluation lost",
    "values: objective forks": "evaluation lost",
    "files: empty": "—",
}
"""What SciPy's differential evolution does: an exception loses all evaluations, a copy of the process runs on, and
there are no files.
"""


def ended(library, names, folder):
    """How some cases ended with a library, and what the benchmark printed."""
    chosen = [part for name in names for part in ("--only", name)]
    told = python(
        str(BENCHMARKS / "reliability.py"), "--library", library, *chosen, "--json", str(folder / "rows.json")
    )
    rows = json.loads((folder / "rows.json").read_text())["rows"]
    endings = {f"{row['group']}: {row['case']}": row for row in rows}
    return {name: endings[name] for name in names}, told


def test_a_handful_of_cases_ends_well_here(tmp_path):
    rows, told = ended("sublevel", HANDFUL, tmp_path)
    assert {name: row["outcome"] for name, row in rows.items()} == HANDFUL
    assert all(row["right"] for row in rows.values())
    assert "| clear error | 4 |" in told


def test_a_library_that_loses_evaluations_is_found_out(tmp_path):
    rows, told = ended("scipy DE", CONTROL, tmp_path)
    assert {name: row["outcome"] for name, row in rows.items()} == CONTROL
    assert [row["right"] for row in rows.values()] == [True, False, False, True]
    assert "| **evaluation lost** | 2 |" in told
