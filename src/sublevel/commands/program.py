"""An external program as objective: a point as JSON on its stdin, one number on its stdout, never through a shell."""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import IO, Any

from sublevel.arrays import Array
from sublevel.failures import NAN, TIMEOUT, EvaluationFailed
from sublevel.workers import kill_group

NUMBER = re.compile(r"[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)", re.ASCII | re.IGNORECASE)
LONGEST_OUTPUT = 4096
"""Bytes of output in which a number must stand; a program that writes more is stopped."""
GRACE = 1.0
"""Seconds that children of a program which has ended may still hold its output open."""

Process = subprocess.Popen[bytes]


@dataclass(slots=True)
class Program:
    """The objective. It raises `EvaluationFailed` if it has no number to give, with the kind of what went wrong."""

    argv: Sequence[str]
    timeout: float | None = None
    _running: set[Process] = field(default_factory=set[Process])
    _closed: bool = False

    def __call__(self, point: Array) -> float:
        """The value at a point (d,)."""
        try:
            process = Process(self.argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            raise EvaluationFailed("not started", _printable(str(error))) from error
        self._running.add(process)
        try:
            if self._closed:
                return math.nan
            kind, output, errors = _answer(process, json.dumps(point.tolist()), self.timeout)
        finally:
            _end(process)
            self._running.discard(process)
        if kind is None and NUMBER.fullmatch(output) is None:
            kind, errors = "no number", f"expected one number, got {output[:60]!r}"
        if kind is None and math.isnan(float(output)):
            kind = NAN
        if kind is not None:
            raise EvaluationFailed(kind, _printable(errors))
        return float(output)

    def close(self) -> None:
        """End whatever still runs, and what begins from now on."""
        self._closed = True
        for process in tuple(self._running):
            _end(process)


def _answer(process: Process, text: str, timeout: float | None) -> tuple[str | None, str, str]:
    """What is wrong, if something is; what the program wrote, and its last words on stderr."""
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    output, errors = bytearray(), bytearray()
    threads = [
        threading.Thread(target=work, args=arguments, daemon=True)
        for work, arguments in ((_feed, (process, text)), (_read, (process, output)), (_read_end, (process.stderr, errors)))
    ]
    for thread in threads:
        thread.start()
    in_time = _finished(process, threads[1], deadline)
    _end(process)
    for thread in threads[1:]:
        thread.join(GRACE)
    last_words = errors.decode(errors="replace").strip().rpartition("\n")[2]
    if len(output) > LONGEST_OUTPUT:
        return "too much output", "", f"more than {LONGEST_OUTPUT} bytes"
    if not in_time:
        return TIMEOUT, "", f"longer than {timeout:g} s"
    if process.returncode:
        return f"exit status {process.returncode}", "", last_words
    return None, output.decode(errors="replace").strip(), last_words


def _finished(process: Process, reader: threading.Thread, deadline: float) -> bool:
    """Wait until the program has ended and all is read; False if that takes too long."""
    while process.poll() is None:
        if time.monotonic() >= deadline:
            return False
        if reader.is_alive():
            reader.join(min(0.2, max(deadline - time.monotonic(), 0.0)))
        else:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(min(0.2, max(deadline - time.monotonic(), 0.0)))
    reader.join(GRACE)
    if reader.is_alive():  # its children hold the pipe
        kill_group(process)
    return True


def _feed(process: Process, text: str) -> None:
    """Write the point; a program may end without reading it."""
    with contextlib.suppress(OSError), _pipe(process.stdin) as stream:
        stream.write(text.encode() + b"\n")


def _read(process: Process, output: bytearray) -> None:
    """Read what a number may need, and end a program that writes on."""
    with contextlib.suppress(OSError, ValueError), _pipe(process.stdout) as stream:
        output += stream.read(LONGEST_OUTPUT + 1)
        if len(output) > LONGEST_OUTPUT:
            _end(process)


def _read_end(pipe: IO[bytes] | None, errors: bytearray) -> None:
    """Read all of stderr, keep its end."""
    with contextlib.suppress(OSError, ValueError), _pipe(pipe) as stream:
        while part := stream.read(LONGEST_OUTPUT):
            errors[:] = (errors + part)[-LONGEST_OUTPUT:]


def _pipe(pipe: IO[bytes] | None) -> Any:
    """A pipe, which Popen has since it was asked for one."""
    return pipe


def _end(process: Process) -> None:
    """Kill the program and what it started, if it still runs."""
    if process.poll() is None:
        kill_group(process)
        process.wait()


def _printable(text: str) -> str:
    return "".join(letter if letter.isprintable() else " " for letter in text)[:200]
