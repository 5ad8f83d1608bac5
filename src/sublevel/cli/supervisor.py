"""The parent process of external programs. It runs one program at a time and kills it when the requesting process ends.

This file is executed as a script and imports only the standard library, so that it starts quickly. A `Request` is a
line of JSON on stdin. The answer is a line with the `pid` of the program, then a line with an `Answer`. When stdin is
closed, which happens even if the requesting process is killed by SIGKILL, the program and its process group are killed.
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from functools import partial
from math import inf
from typing import IO, NoReturn, TypedDict, cast

REQUESTS, ANSWERS = 0, 1
"""File descriptors of stdin and stdout."""
GRACE = 1.0
"""Seconds in which children of a program may complete its output after it has ended."""
CHUNK, DRAINS, STDERR_LIMIT = 65536, 64, 4096
"""Bytes per read; reads that empty any pipe, which has at most 1 MiB; last bytes of stderr that are kept."""


class Request(TypedDict):
    """A program to run."""

    argv: list[str]
    input: str  # for its stdin
    timeout: float | None  # in seconds
    limit: int  # most bytes of output
    tail: bool  # whether to keep the end of a longer output instead of refusing it


class Answer(TypedDict):
    """The result of a program."""

    kind: str | None  # of failure
    output: str
    detail: str


class StreamBuffer:
    """The first or the last bytes of a stream."""

    def __init__(self, limit: int, tail: bool) -> None:
        self.limit, self.tail, self.data = limit, tail, bytearray()

    @property
    def is_too_long(self) -> bool:
        """Whether the output exceeds the limit and is not to be cut at its beginning."""
        return not self.tail and len(self.data) > self.limit

    @property
    def text(self) -> str:
        """The bytes as text."""
        return bytes(self.data).decode(errors="replace").strip()

    def add(self, part: bytes) -> None:
        """Append bytes."""
        self.data += part
        if self.tail and len(self.data) > self.limit:
            del self.data[: -self.limit]


class RunningProgram:
    """A running program with its input and output."""

    def __init__(self, process: subprocess.Popen[bytes], request: Request, child_ended: int) -> None:
        self.process, self.request = process, request
        self.input = memoryview(request["input"].encode())
        pipes = cast(tuple[IO[bytes], ...], (process.stdin, process.stdout, process.stderr))
        self.stdin, self.stdout, self.stderr = pipes
        self.output = StreamBuffer(request["limit"], request["tail"])
        self.errors = StreamBuffer(STDERR_LIMIT, tail=True)
        self.buffers = {self.stdout: self.output, self.stderr: self.errors}
        for stream in pipes:
            os.set_blocking(stream.fileno(), False)
        self.selector = selectors.DefaultSelector()
        self.selector.register(self.stdin, selectors.EVENT_WRITE, self._write_input)
        for stream in self.buffers:
            self.selector.register(stream, selectors.EVENT_READ, partial(self._read, stream))
        self.selector.register(REQUESTS, selectors.EVENT_READ, _exit)  # no request is due, so stdin was closed
        self.selector.register(child_ended, selectors.EVENT_READ, partial(os.read, child_ended, CHUNK))

    def communicate(self) -> Answer:
        """Read and write until the program ends or the timeout has passed."""
        timeout, output = self.request["timeout"], self.output
        deadline, has_ended = inf if timeout is None else time.monotonic() + timeout, False
        while not output.is_too_long:
            if not has_ended and _has_ended(self.process):
                has_ended, deadline = True, time.monotonic() + GRACE
                self._drain()
                continue
            is_complete = self.stdout.closed or output.data.endswith(b"\n")
            if has_ended and (is_complete or time.monotonic() >= deadline):
                return self._finish()
            if time.monotonic() >= deadline:
                return _failed("timeout", f"longer than {timeout:g} s")
            for key, _ in self.selector.select(None if deadline == inf else max(deadline - time.monotonic(), 0.0)):
                key.data()
        return _failed("too much output", f"more than {output.limit} bytes")

    def _write_input(self) -> None:
        """Write a part of the input; the program may end without reading it."""
        try:
            self.input = self.input[os.write(self.stdin.fileno(), self.input) :]
        except BlockingIOError:
            return
        except OSError:
            self.input = self.input[:0]
        if not self.input:
            self.selector.unregister(self.stdin)
            self.stdin.close()

    def _read(self, stream: IO[bytes]) -> bool:
        """Read once; False if nothing is available or the stream has ended."""
        try:
            part = os.read(stream.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self.buffers[stream].add(part)
        if not part:
            self.selector.unregister(stream)
            stream.close()
        return bool(part)

    def _drain(self) -> None:
        """Read all that the program wrote before it ended; its children may continue to write."""
        for stream in self.buffers:
            for _ in range(DRAINS):
                if stream.closed or not self._read(stream):
                    break

    def _finish(self) -> Answer:
        status, detail = _end(self.process), self.errors.text.rpartition("\n")[2]
        if status:
            return _failed(f"exit status {status}", detail)
        return {"kind": None, "output": self.output.text, "detail": detail}

    def close(self) -> None:
        """Kill the program and its group, and close the pipes."""
        _end(self.process)
        self.selector.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def _failed(kind: str, detail: str) -> Answer:
    return {"kind": kind, "output": "", "detail": detail}


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program has ended. It is not reaped if possible: its process id is needed to kill its group."""
    if not hasattr(os, "waitid") or process.returncode is not None:
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill a program and its group unless it was reaped; its exit status."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def run_program(request: Request, child_ended: int) -> Answer:
    """Run a program and return the answer."""
    argv, pipe = request["argv"], subprocess.PIPE
    try:
        process = subprocess.Popen(argv, bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except (OSError, ValueError) as error:
        return _failed("not started", str(error))
    running = None
    try:
        send({"pid": process.pid})
        running = RunningProgram(process, request, child_ended)
        return running.communicate()
    finally:
        if running is None:
            _end(process)
        else:
            running.close()


def send(message: Answer | dict[str, int]) -> None:
    """Write a line of JSON; exit if the reader has ended."""
    line = memoryview(json.dumps(message).encode() + b"\n")
    try:
        while line:
            line = line[os.write(ANSWERS, line) :]
    except OSError:
        raise SystemExit from None


def _exit(*_: object) -> NoReturn:
    raise SystemExit


def serve() -> None:
    """Answer requests until stdin is closed."""
    child_ended, wake = os.pipe()
    for end in (child_ended, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)  # it is written to the wakeup descriptor
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _exit)
    for line in iter(sys.stdin.buffer.readline, b""):
        send(run_program(json.loads(line), child_ended))


if __name__ == "__main__":
    serve()
