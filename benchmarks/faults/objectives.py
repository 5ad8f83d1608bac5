"""Objectives that misbehave, and that count their own calls in files, outside of every library and process."""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

OPTIMUM = np.array([0.3, -0.2])
NAN, INF = float("nan"), float("inf")
SLOW = 0.005
"""Seconds that an evaluation takes in runs that something happens to from outside."""


def bowl(x: Any) -> float:
    """(x₀ − 0.3)² + 4(x₁ + 0.2)²: what every library finds if nothing goes wrong."""
    point = np.asarray(x, dtype=np.float64)
    return float((point[0] - OPTIMUM[0]) ** 2 + 4 * (point[1] - OPTIMUM[1]) ** 2)


def noted(file: Path, what: bytes) -> int:
    """Append to a file in one piece; how many bytes it has up to there."""
    handle = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    try:
        os.write(handle, what)
        return os.lseek(handle, 0, os.SEEK_CUR)
    finally:
        os.close(handle)


def size(file: Path) -> int:
    """Bytes of a file; 0 if there is none."""
    return file.stat().st_size if file.exists() else 0


class Objective:
    """A behaviour by its name, with the folder where it counts, and the call at which it shows."""

    def __init__(self, folder: Path, behaviour: str = "bowl", at: int = 20) -> None:
        self.folder, self.behaviour, self.at = folder, behaviour, at

    def __call__(self, x: Any, *_: Any) -> Any:
        """The value; a byte in `begun` before, and the point in `finished` after, if there is an after."""
        number = noted(self.folder / "begun", b".")
        point = np.array(x, dtype=np.float64, copy=True) if np.size(x) == 2 else np.zeros(2)
        value = BEHAVIOURS[self.behaviour](self, x, number)
        noted(self.folder / "finished", point.tobytes())
        return value

    def first(self, number: int) -> bool:
        """Whether this is the first call that is not before its moment; others that come at the same time are not."""
        if number < self.at:
            return False
        try:
            os.close(os.open(self.folder / "shown", os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return False
        return True


def finished_points(folder: Path) -> np.ndarray:
    """The points (n, 2) whose evaluation came to an end."""
    file = folder / "finished"
    return np.frombuffer(file.read_bytes()).reshape(-1, 2) if file.exists() else np.empty((0, 2))


class Own(Exception):
    """An exception that only the objective raises."""


class Unsendable(Own):
    """An exception that cannot be pickled."""

    def __init__(self) -> None:
        super().__init__("holds a lock")
        self.lock = open(os.devnull)  # noqa: SIM115


class Unmakeable(Own):
    """An exception that can be pickled, but not made again: it wants two arguments."""

    def __init__(self, one: str, two: str) -> None:
        super().__init__(one)


class HangingFloat(float):
    """A number that takes a minute to unpickle."""

    def __reduce__(self) -> Any:
        return time.sleep, (60,)


def returning(value: Callable[[Any], Any]) -> Callable[..., Any]:
    """Always what `value` makes of the point."""
    return lambda self, x, number: value(x)


def returning_at(value: Any) -> Callable[..., Any]:
    """The bowl, and something else at one call."""
    return lambda self, x, number: value if number == self.at else bowl(x)


def raising(error: Callable[[], BaseException]) -> Callable[..., Any]:
    """The bowl, and an exception at one call."""

    def behaviour(self: Objective, x: Any, number: int) -> float:
        if number == self.at:
            raise error()
        return bowl(x)

    return behaviour


def once(fault: Callable[[], Any]) -> Callable[..., Any]:
    """The bowl, slowly, and a fault at one call."""

    def behaviour(self: Objective, x: Any, number: int) -> float:
        if self.first(number):
            fault()
        time.sleep(0.001)
        return bowl(x)

    return behaviour


def beyond(fault: Callable[[], Any]) -> Callable[..., Any]:
    """The bowl, and a fault wherever x₀ is above 1.6: a tenth of the first sample, and none near the optimum."""

    def behaviour(self: Objective, x: Any, number: int) -> float:
        if x[0] > 1.6:
            fault()
        return bowl(x)

    return behaviour


def forever() -> None:
    """Longer than anybody waits."""
    while True:
        time.sleep(3600)


def spinning() -> None:
    """The same without ever sleeping."""
    while True:
        pass


def with_a_child() -> None:
    """Hang with a program running that would stay behind."""
    subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"])
    forever()


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def segfault() -> None:
    ctypes.string_at(0)


def mutated(x: Any) -> float:
    """The value at x, which is overwritten before it is returned."""
    value = bowl(x)
    x[:] = 99.0
    return value


KEPT: list[Any] = []


def mutated_later(x: Any) -> float:
    """The value at x, while the points of earlier calls are overwritten."""
    value = bowl(x)
    for before in KEPT:
        before[:] = 99.0
    KEPT[:] = [*KEPT[-20:], x]
    return value


def with_global_seed(x: Any) -> float:
    """The bowl, by an objective that seeds NumPy's global generator."""
    np.random.seed(0)  # noqa: NPY002
    return bowl(x)


def with_strict_floats(x: Any) -> float:
    """The bowl, by an objective that makes floating-point warnings errors for everybody."""
    np.seterr(all="raise")
    return bowl(x)


def with_other_folder(x: Any) -> float:
    """The bowl, by an objective that changes the working directory."""
    os.chdir("/")
    return bowl(x)


def with_closed_files() -> None:
    """All files but the standard streams are closed, whoever opened them."""
    os.closerange(3, 512)


def with_garbage() -> None:
    """Something is written into every file that is open."""
    for file in range(3, 64):
        with contextlib.suppress(OSError):
            os.write(file, b"garbage that is no message")


def with_a_thread() -> None:
    """A thread stays behind."""
    threading.Thread(target=forever).start()


def with_handlers() -> None:
    """Signals are answered otherwise from now on."""
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
        signal.signal(number, signal.SIG_IGN)


def without_memory() -> None:
    """Memory runs out."""
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + (16 << 20), resource.getrlimit(resource.RLIMIT_AS)[1]))
    np.ones(1 << 30)


def without_end() -> None:
    without_end()


EXECUTORS: list[Any] = []
"""Executors of the libraries that run in this process."""


def without_executor() -> None:
    """The executor that evaluates is shut down."""
    EXECUTORS[-1].shutdown(wait=False, cancel_futures=True)


def batch(rows: Callable[[np.ndarray], Any]) -> Callable[..., Any]:
    """A behaviour for all points at once, given as rows (n, 2)."""
    return lambda self, x, number: rows(np.asarray(x))


def bowls(points: np.ndarray) -> np.ndarray:
    return np.array([bowl(point) for point in points])


def slow(x: Any) -> float:
    time.sleep(SLOW)
    return bowl(x)


BEHAVIOURS: dict[str, Callable[..., Any]] = {
    "bowl": returning(bowl),
    "slow": returning(slow),
    "slower": returning(lambda x: (time.sleep(3 * SLOW), slow(x))[1]),
    # values of another type
    "float32": returning(lambda x: np.float32(bowl(x))),
    "float16": returning(lambda x: np.float16(bowl(x))),
    "longdouble": returning(lambda x: np.longdouble(bowl(x))),
    "0-d array": returning(lambda x: np.array(bowl(x))),
    "1-element array": returning(lambda x: np.array([bowl(x)])),
    "1-element list": returning(lambda x: [bowl(x)]),
    "Decimal": returning(lambda x: Decimal(bowl(x))),
    "Fraction": returning(lambda x: Fraction(bowl(x))),
    "scaled to 1e300": returning(lambda x: 1e300 * bowl(x)),
    "scaled to 1e-300": returning(lambda x: 1e-300 * bowl(x)),
    "int": returning(lambda x: round(1e6 * bowl(x))),
    # values that are none
    "None": returning(lambda x: None),
    "str": returning(lambda x: str(bowl(x))),
    "bytes": returning(lambda x: b"1.0"),
    "complex": returning(lambda x: complex(bowl(x), 1.0)),
    "complex without imaginary part": returning(lambda x: complex(bowl(x), 0.0)),
    "array of 2": returning(lambda x: np.array([bowl(x), 1.0])),
    "2×2 array": returning(lambda x: np.full((2, 2), bowl(x))),
    "list of 2": returning(lambda x: [bowl(x), 1.0]),
    "empty array": returning(lambda x: np.empty(0)),
    "empty list": returning(lambda x: []),
    "dict": returning(lambda x: {"f": bowl(x)}),
    "function": returning(lambda x: bowl),
    "the point": returning(lambda x: x),
    "NaN": returning(lambda x: NAN),
    "+inf": returning(lambda x: INF),
    "−inf": returning(lambda x: -INF),
    "None at evaluation 20": returning_at(None),
    "str at evaluation 20": returning_at("1.0"),
    "array at evaluation 20": returning_at(np.ones(2)),
    "complex at evaluation 20": returning_at(1j),
    # values that happen
    "NaN at evaluation 20": returning_at(NAN),
    "+inf at evaluation 20": returning_at(INF),
    "NaN now and then": lambda self, x, number: NAN if number % 7 == 3 else bowl(x),
    "NaN every other": lambda self, x, number: NAN if number % 2 else bowl(x),
    "NaN first": lambda self, x, number: NAN if number <= self.at else bowl(x),
    "+inf now and then": lambda self, x, number: INF if number % 7 == 3 else bowl(x),
    "NaN in half of the space": returning(lambda x: NAN if x[0] > 1.0 else bowl(x)),
    "1e300 in half of the space": returning(lambda x: 1e300 if x[0] > 1.0 else bowl(x)),
    # landscapes
    "constant": returning(lambda x: 1.0),
    "steps": returning(lambda x: float(np.floor(20 * bowl(x)))),
    "linear": returning(lambda x: float(x[0] + x[1])),
    "random": returning(lambda x: float.fromhex("0x0." + os.urandom(6).hex() + "p0")),
    # what it does besides
    "mutates x": returning(mutated),
    "mutates earlier x": returning(mutated_later),
    "seeds the global generator": returning(with_global_seed),
    "makes float warnings errors": returning(with_strict_floats),
    "changes the working directory": returning(with_other_folder),
    "moves to another folder": lambda self, x, number: (os.chdir(self.folder / "other"), bowl(x))[1],
    "closes stdout": returning(lambda x: (sys.stdout.close(), bowl(x))[1]),
    "closes all files": once(with_closed_files),
    "writes into all files": once(with_garbage),
    "forks": once(os.fork),
    "leaves a thread": once(with_a_thread),
    "ignores signals": once(with_handlers),
    "runs out of memory": once(without_memory),
    "recurses without end": once(without_end),
    "shuts down its executor": once(without_executor),
    # what it raises
    "ValueError": raising(lambda: ValueError("own")),
    "Own": raising(lambda: Own("own")),
    "KeyError": raising(lambda: KeyError("own")),
    "AssertionError": raising(lambda: AssertionError("own")),
    "StopIteration": raising(lambda: StopIteration("own")),
    "GeneratorExit": raising(lambda: GeneratorExit("own")),
    "MemoryError": raising(lambda: MemoryError("own")),
    "RecursionError": raising(lambda: RecursionError("own")),
    "ZeroDivisionError": raising(lambda: ZeroDivisionError("own")),
    "FloatingPointError": raising(lambda: FloatingPointError("own")),
    "LinAlgError": raising(lambda: np.linalg.LinAlgError("own")),
    "OSError": raising(lambda: OSError(5, "own")),
    "SystemExit": raising(lambda: SystemExit("own")),
    "Unsendable": raising(Unsendable),
    "Unmakeable": raising(lambda: Unmakeable("own", "two")),
    "lambda": returning(bowl),
    "wrong signature": returning(bowl),
    # what happens to its process
    "exit once": once(lambda: os._exit(3)),
    "exit 0 once": once(lambda: os._exit(0)),
    "kill once": once(killed),
    "segfault once": once(segfault),
    "abort once": once(os.abort),
    "hang once": once(forever),
    "spin once": once(spinning),
    "stop once": once(lambda: os.kill(os.getpid(), signal.SIGSTOP)),
    "unpicklable": returning(lambda x: lambda: bowl(x)),
    "a float that hangs when unpickled": returning(lambda x: HangingFloat(bowl(x))),
    "100 MB": returning(lambda x: "x" * 100_000_000),
    "hang with a child once": once(with_a_child),
    "exit beyond": beyond(lambda: os._exit(3)),
    "kill beyond": beyond(killed),
    "segfault beyond": beyond(segfault),
    "hang beyond": beyond(forever),
    "hang": returning(lambda x: forever()),
    # all points at once
    "batch": batch(bowls),
    "batch, one too few": batch(lambda X: bowls(X)[:-1]),
    "batch, one too many": batch(lambda X: np.append(bowls(X), 1.0)),
    "batch, a column": batch(lambda X: bowls(X)[:, None]),
    "batch, one number": batch(lambda X: 1.0),
    "batch, None": batch(lambda X: None),
    "batch, strings": batch(lambda X: [str(value) for value in bowls(X)]),
    "batch, NaN": batch(lambda X: bowls(X) * NAN),
}
"""What an objective does, by name: a function of the objective, the point and the number of the call."""
