"""An external program as objective: it gets the point on stdin or as arguments and prints a number, without a shell."""

from __future__ import annotations

import contextlib
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, cast

import sublevel.cli.supervisor as supervisor
from sublevel.cli.template import argument_text, fill_arguments
from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import NAN, EvaluationFailed

_NUMBER = r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[ed][+-]?\d+)?|inf(?:inity)?|nan)"
NUMBER = re.compile(_NUMBER, re.ASCII | re.IGNORECASE)
"""A number as programs print it, including the exponent letter D of Fortran. It can match in one way only, so that the
time is linear in the length of the output.
"""
LAST_NUMBER = re.compile(rf"(?<![\w.])({_NUMBER})(?!\w|\.\w)", re.ASCII | re.IGNORECASE)
"""A number within a text: 1.5 in "cost=1.5.", but none in "v1.5.2"."""
LONGEST_OUTPUT, SEARCHED_OUTPUT = 4096, 2**20
"""Most bytes of output without a pattern, and bytes at the end of the output that a pattern is applied to."""
EXIT_TIMEOUT = 5.0
"""Seconds in which a supervisor must exit after its stdin is closed."""


class Supervisor:
    """A process that runs programs for one thread, one at a time, and kills them when this process ends."""

    def __init__(self) -> None:
        self.program: int | None = None  # process id of the program
        argv, pipe = [sys.executable, "-I", "-S", str(Path(supervisor.__file__).absolute())], subprocess.PIPE
        self._process = subprocess.Popen(argv, stdin=pipe, stdout=pipe, start_new_session=True)
        self._stdin, self._stdout = cast(IO[bytes], self._process.stdin), cast(IO[bytes], self._process.stdout)

    def run(self, request: supervisor.Request) -> supervisor.Answer:
        """Run a program; `supervisor.py` describes the request and the answer."""
        try:
            self._stdin.write(json.dumps(request).encode() + b"\n")
            self._stdin.flush()
            answer = json.loads(self._stdout.readline())
            if "pid" in answer:
                self.program = answer["pid"]
                answer = json.loads(self._stdout.readline())
        except (OSError, ValueError) as error:  # it has ended, or was closed by another thread
            raise EvaluationFailed("supervisor lost", "the process that runs the program has ended") from error
        self.program = None
        return answer

    def close(self) -> None:
        """End the supervisor and its program."""
        with contextlib.suppress(OSError):
            self._stdin.close()
        try:
            self._process.wait(EXIT_TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self.program is not None:  # the supervisor may have been killed
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.program, signal.SIGKILL)
            self.program = None
        self._stdout.close()

    def __del__(self) -> None:
        """End the supervisor if it was not closed."""
        if hasattr(self, "_process") and self._process.returncode is None:
            self.close()


@dataclass(slots=True)
class Program:
    """An objective that runs a program. It raises `EvaluationFailed`, with its kind, if there is no value."""

    argv: Sequence[str]  # {name}, {0} or {x0} is replaced by a variable, {} by all of them
    timeout: float | None = None  # of one evaluation, in seconds
    pattern: re.Pattern[str] | None = None  # the value is the last match, or its group; None: the output is one number
    names: Sequence[str] | None = None  # of the variables, or of all parameters of a space
    integers: Collection[int] = ()  # variables that are integers
    constraints: int = 0  # constraint values that it prints after the value
    _idle: list[Supervisor] = field(default_factory=list[Supervisor])
    _busy: set[Supervisor] = field(default_factory=set[Supervisor])
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _closed: bool = False
    _has_failed: bool = False

    def __call__(self, point: Array | Mapping[str, object]) -> float | tuple[float, list[float]]:
        """The value at a point (d,), or at parameters by name; with constraints, the value and those of the
        constraints.
        """
        values = self._values(point)
        request: supervisor.Request = {
            "argv": fill_arguments(self.argv, values, self.names),
            "input": json.dumps(dict(point) if isinstance(point, Mapping) else values) + "\n",
            "timeout": self.timeout,
            "limit": LONGEST_OUTPUT if self.pattern is None else SEARCHED_OUTPUT,
            "tail": self.pattern is not None,
        }
        answer = self._run(request)
        try:
            if answer["kind"] is not None:
                raise EvaluationFailed(answer["kind"], _printable(answer["detail"]))
            if self.constraints:
                return self._value_and_constraints(answer["output"], answer["detail"])
            return self._value(answer["output"], answer["detail"])
        except EvaluationFailed as error:
            self._report_first(error, values)
            raise

    def _values(self, point: Array | Mapping[str, object]) -> list[object]:
        """The values of a point as the program gets them."""
        if isinstance(point, Mapping):
            return list(point.values())
        return [int(x) if i in self.integers else x for i, x in enumerate(point.tolist())]

    def _report_first(self, error: EvaluationFailed, values: Sequence[object]) -> None:
        """Print the first failure immediately, because all evaluations may fail in the same way."""
        with self._lock:
            is_first, self._has_failed = not self._has_failed and not self._closed, True
        if is_first and sys.stderr is not None:
            print(
                f"sublevel: first failed evaluation, at {','.join(map(argument_text, values))}: {error}",
                file=sys.stderr,
            )

    def _run(self, request: supervisor.Request) -> supervisor.Answer:
        """Send a request to a free supervisor."""
        with self._lock:
            if self._closed:
                raise EvaluationFailed("interrupted", "the run has ended")
            worker = self._idle.pop() if self._idle else Supervisor()
            self._busy.add(worker)
        try:
            answer = worker.run(request)
        except BaseException:
            self._busy.discard(worker)
            worker.close()
            raise
        with self._lock:
            self._busy.discard(worker)
            self._idle.append(worker)
        return answer

    def _value(self, output: str, stderr: str) -> float:
        """Extract the value from the output of the program."""
        text = output if self.pattern is None else find_value(self.pattern, output)
        if text is None or NUMBER.fullmatch(text) is None:
            expected = "expected one number (use --pattern for other output)"
            if self.pattern is not None:
                expected = "--pattern matches no number"
            excerpt = output[-60:] if text is None else text[:60]
            raise EvaluationFailed("no number", _printable(f"{expected}, got {excerpt!r}"))
        value = float(text.lower().replace("d", "e"))
        if math.isnan(value):
            raise EvaluationFailed(NAN, _printable(stderr))
        return value

    def _value_and_constraints(self, output: str, stderr: str) -> tuple[float, list[float]]:
        """Extract 1 + m numbers: all of the output, or the last ones that the pattern finds."""
        count = 1 + self.constraints
        texts = output.replace(",", " ").split()
        if self.pattern is not None:
            texts = [(match[self.pattern.groups] or "").strip() for match in self.pattern.finditer(output)][-count:]
        if len(texts) != count or not all(map(NUMBER.fullmatch, texts)):
            expected = f"expected {count} numbers, the value and {self.constraints} constraint values"
            raise EvaluationFailed("no number", _printable(f"{expected}, got {output[-60:]!r}"))
        value, *constraints = [float(text.lower().replace("d", "e")) for text in texts]
        if math.isnan(value):
            raise EvaluationFailed(NAN, _printable(stderr))
        return value, constraints

    def close(self) -> None:
        """End all programs and start no more."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.close()


def find_value(pattern: re.Pattern[str], output: str) -> str | None:
    """The last match of a pattern, or its group if it has one; None without a match."""
    last = next(iter(deque(pattern.finditer(output), maxlen=1)), None)
    return None if last is None else (last[pattern.groups] or "").strip()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
