"""An external program as objective: a point as JSON on its stdin or in its arguments, a number in its output, never through a shell."""

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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import sublevel.cli.supervisor as supervisor
from sublevel.cli.template import fill_arguments
from sublevel.engine.arrays import Array
from sublevel.evaluation.failures import NAN, EvaluationFailed

_NUMBER = r"[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:[ed][+-]?\d+)?|inf(?:inity)?|nan)"
NUMBER = re.compile(_NUMBER, re.ASCII | re.IGNORECASE)
"""A number as programs print it, also with the exponent D of Fortran."""
LAST_NUMBER = re.compile(rf"(?<![\w.])({_NUMBER})(?!\w|\.\w)", re.ASCII | re.IGNORECASE)
"""A number in a text. 1.5 in "cost=1.5." is one; nothing in "v1.5.2" is."""
LONGEST_OUTPUT = 4096
"""Bytes of output in which a number must stand alone; a program that writes more is stopped."""
SEARCHED_OUTPUT = 2**20
"""Bytes at the end of the output in which a pattern is searched."""
LEAVE = 5.0
"""Seconds in which a supervisor must have ended after its stdin did."""


class Supervisor:
    """The process that runs programs for one thread, one at a time; it kills them when this process ends, however that happens."""

    def __init__(self) -> None:
        self.program: int | None = None  # the number of the process of the program
        self._process: Any = subprocess.Popen(
            [sys.executable, "-I", "-S", str(Path(supervisor.__file__).absolute())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )

    def run(self, request: dict[str, Any]) -> dict[str, Any]:
        """Run a program; see `supervisor.py` for the request and the answer."""
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer = self._read()
            if "pid" in answer:
                self.program = answer["pid"]
                answer = self._read()
        except (OSError, ValueError) as error:  # it is gone, or was closed by another thread
            raise EvaluationFailed("supervisor lost", "the process that runs the program has ended") from error
        self.program = None
        return answer

    def _read(self) -> dict[str, Any]:
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End it, and the program with it."""
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self.program is not None:  # the supervisor may have been killed
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.program, signal.SIGKILL)
            self.program = None
        self._process.stdout.close()

    def __del__(self) -> None:
        """End it with the last reference, as when a test forgets it."""
        if hasattr(self, "_process") and self._process.returncode is None:
            self.close()


@dataclass(slots=True)
class Program:
    """The objective. It raises `EvaluationFailed` if it has no number to give, with the kind of what went wrong.

    Parameters
    ----------
    argv : sequence of str
        The program and its arguments, in which `{name}`, `{0}` or `{x0}` stand for a variable and `{}` for all of them.
    timeout : float, optional
        Seconds the program may run.
    pattern : re.Pattern, optional
        Where the value stands in the output: the last match, or its group if it has one. Default: the output is one number.
    names : sequence of str, optional
        Names of the variables.
    """

    argv: Sequence[str]
    timeout: float | None = None
    pattern: re.Pattern[str] | None = None
    names: Sequence[str] | None = None
    _idle: list[Supervisor] = field(default_factory=list[Supervisor])
    _busy: set[Supervisor] = field(default_factory=set[Supervisor])
    _lock: Any = field(default_factory=threading.Lock)
    _closed: bool = False
    _has_failed: bool = False

    def __call__(self, point: Array) -> float:
        """The value at a point (d,)."""
        values = point.tolist()
        request = {
            "argv": fill_arguments(self.argv, values, self.names),
            "input": json.dumps(values) + "\n",
            "timeout": self.timeout,
            "limit": LONGEST_OUTPUT if self.pattern is None else SEARCHED_OUTPUT,
            "tail": self.pattern is not None,
        }
        answer = self._run(request)
        try:
            if answer["kind"] is not None:
                raise EvaluationFailed(answer["kind"], _printable(answer["detail"]))
            return self._value(answer["output"], answer["detail"])
        except EvaluationFailed as error:
            self._report_first(error, values)
            raise

    def _report_first(self, error: EvaluationFailed, values: list[float]) -> None:
        """Print the first failure at once: if every evaluation fails, the end of the run is late for it."""
        with self._lock:
            is_first, self._has_failed = not self._has_failed and not self._closed, True
        if is_first and sys.stderr is not None:
            print(f"sublevel: first failed evaluation, at {','.join(map(repr, values))}: {error}", file=sys.stderr)

    def _run(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer of a supervisor that is free."""
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

    def _value(self, output: str, last_words: str) -> float:
        """The number in what the program printed."""
        text = output if self.pattern is None else find_value(self.pattern, output)
        if text is None or NUMBER.fullmatch(text) is None:
            expected = "expected one number (--pattern finds it in other output)" if self.pattern is None else "no number matches --pattern"
            shown = (output[:60] if self.pattern is None else output[-60:]) if text is None else text[:60]
            raise EvaluationFailed("no number", _printable(f"{expected}, got {shown!r}"))
        value = float(text.lower().replace("d", "e"))
        if math.isnan(value):
            raise EvaluationFailed(NAN, _printable(last_words))
        return value

    def close(self) -> None:
        """End whatever still runs; nothing begins any more."""
        with self._lock:
            self._closed = True
            workers = [*self._idle, *self._busy]
            self._idle.clear()
        for worker in workers:
            worker.close()


def find_value(pattern: re.Pattern[str], output: str) -> str | None:
    """The text of the last match of a pattern, or of its group if it has one; None if there is no match."""
    last = next(iter(deque(pattern.finditer(output), maxlen=1)), None)
    return None if last is None else (last[pattern.groups] or "").strip()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
