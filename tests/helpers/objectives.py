"""Objectives for other processes, which import this module: it needs NumPy only. Some of them end their process."""

from __future__ import annotations

import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


def sphere(x):
    """Sum of squares, of a point or of rows."""
    return np.sum(np.square(x), axis=-1)


def number(x):
    """A number that belongs to a point alone."""
    return int.from_bytes(hashlib.sha256(np.ascontiguousarray(x).tobytes()).digest()[:4], "big")


DEATHS = (
    lambda: os.kill(os.getpid(), signal.SIGKILL),
    lambda: os.kill(os.getpid(), signal.SIGSEGV),
    lambda: os.kill(os.getpid(), signal.SIGABRT),
    lambda: os._exit(0),
    lambda: os._exit(3),
)


@dataclass(frozen=True)
class Deadly:
    """The sphere, which ends the process that evaluates it: once at every point whose number is a multiple of `every`.

    All calls leave a line in the folder, so that they can be counted.
    """

    folder: Path
    every: int

    def __call__(self, x):
        mine = number(x)
        with open(self.folder / "calls", "a", encoding="utf-8") as calls:
            calls.write(f"{mine}\n")
        if mine % self.every == 0:
            try:
                (self.folder / str(mine)).touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                DEATHS[mine % len(DEATHS)]()
        return sphere(x)


@dataclass(frozen=True)
class Once:
    """The sphere, but at one point something else: `what` names one of the functions below."""

    point: tuple[float, ...]
    what: str
    folder: Path | None = None

    def __call__(self, x):
        if tuple(x) == self.point:
            return globals()[self.what](x, self.folder)
        return sphere(x)


def nan(x, folder):
    return np.nan


def die(x, folder):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(x, folder):
    raise ArithmeticError(f"not at {x[0]}")


def hang(x, folder):
    """Never return, never let another thread run, ignore SIGTERM, and have a child that does the same."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    (folder / str(os.getpid())).touch()
    (folder / str(child.pid)).touch()
    ctypes.PyDLL(None).sleep(600)


def vanish(x, folder):
    """End, but leave a child behind that has all files of its parent."""
    child = os.fork()
    if child == 0:
        time.sleep(600)
        os._exit(0)
    (folder / str(child)).touch()
    os._exit(3)


OPENED = []


def close_files(x, folder):
    """Close the files of the process, then write to one of one's own; the second time never return."""
    os.closerange(3, 256)
    if (folder / "mine").exists():
        time.sleep(600)
    OPENED[:] = [open(folder / "mine", "w") for _ in range(16)]  # one of them has the number of the worker's pipe  # noqa: SIM115
    return 1.0


IS_COPY = [False]


def fork(x):
    """The sphere, by an objective whose copy of the process returns too. Copies make no further copies, and last 20 s
    at most.
    """
    if not IS_COPY[0] and os.fork() == 0:
        IS_COPY[0] = True
        signal.alarm(20)
    return sphere(x)


def memory_score(x):
    """How soon Linux ends this process when memory runs out."""
    return float(Path("/proc/self/oom_score_adj").read_text())


class Endless:
    """Values that never converge."""

    def __call__(self, x):
        return float(number(x + time.monotonic()))


@dataclass(frozen=True)
class Slow:
    """The sphere in some seconds; says in the folder who evaluates it, and how often that was done."""

    folder: Path
    seconds: float
    fun: Any = sphere

    def __call__(self, x):
        (self.folder / str(os.getpid())).touch()
        with open(self.folder / "calls", "a", encoding="utf-8") as calls:
            calls.write(".")
        time.sleep(self.seconds)
        return self.fun(x)


class HangingFloat(float):
    """A number whose own conversions fail, and which takes a minute to unpickle."""

    def __reduce__(self):
        return time.sleep, (60,)

    def __float__(self):
        raise RuntimeError("no conversion")


def hanging_float(x):
    return HangingFloat(np.sum(x**2))


class HangingError(Exception):
    """An exception that takes a minute to unpickle."""

    def __reduce__(self):
        return time.sleep, (60,)


def hanging_error(x):
    if x[0] > 1.2:
        raise HangingError
    return float(np.sum(x**2))
