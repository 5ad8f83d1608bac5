"""The parent process of external programs. It runs one program at a time and kills it when the requesting process ends.

This file is executed as a script and imports only the standard library, so that it starts quickly. A request is a line
of JSON on stdin: `argv`; `input` for the stdin of the program; `timeout` in seconds or null; `limit`, the most bytes of
output; and `tail`, whether to keep the end of a longer output instead of refusing it. The answer is a line with the
`pid` of the program, then a line with `kind` (the kind of failure, or null), `output` and `detail`. When stdin is
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
from math import inf
from typing import Any

REQUESTS, ANSWERS = 0, 1
"""File descriptors of stdin and stdout."""
GRACE = 1.0
"""Seconds in which children of a program may complete its output after it has ended."""
CHUNK = 65536
"""Bytes per read."""
DRAINS = 64
"""Reads that empty any pipe: the largest on Linux holds 1 MiB."""
STDERR_LIMIT = 4096
"""Last bytes of stderr that are kept."""


class StreamBuffer:
    """The first or the last bytes of a stream."""

    def __init__(self, limit: int, tail: bool) -> None:
        self.limit, self.tail, self.data = limit, tail, bytearray()

    @property
    def is_too_long(self) -> bool:
        """Whether the output exceeds the limit and is not to be cut at its beginning."""
        return not self.tail and len(self.data) > self.limit

    def add(self, part: bytes) -> None:
        """Append bytes."""
        self.data += part
        if self.tail and len(self.data) > self.limit:
            del self.data[: -self.limit]


class RunningProgram:
    """A running program with its input and output."""

    def __init__(self, process: subprocess.Popen[bytes], request: dict[str, Any], child_ended: int) -> None:
        self.process, self.request, self.child_ended = process, request, child_ended
        self.input = memoryview(request["input"].encode())
        self.stdin: Any = process.stdin
        self.stdout: Any = process.stdout
        self.stderr: Any = process.stderr
        self.buffers = {
            self.stdout: StreamBuffer(request["limit"], request["tail"]),
            self.stderr: StreamBuffer(STDERR_LIMIT, tail=True),
        }
        self.selector = selectors.DefaultSelector()
        for stream in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_WRITE if stream is self.stdin else selectors.EVENT_READ)
        for end in (REQUESTS, child_ended):
            self.selector.register(end, selectors.EVENT_READ)

    def communicate(self) -> dict[str, Any]:
        """Read and write until the program ends or the timeout has passed."""
        timeout, output = self.request["timeout"], self.buffers[self.stdout]
        deadline, has_ended = inf if timeout is None else time.monotonic() + timeout, False
        while not output.is_too_long:
            if not has_ended and _has_ended(self.process):
                has_ended, deadline = True, time.monotonic() + GRACE
                self._drain()
                continue
            if has_ended and (self._is_complete(output) or time.monotonic() >= deadline):
                return self._finish(output)
            if time.monotonic() >= deadline:
                return _failed("timeout", f"longer than {timeout:g} s")
            self._wait(None if deadline == inf else max(deadline - time.monotonic(), 0.0))
        return _failed("too much output", f"more than {output.limit} bytes")

    def _wait(self, seconds: float | None) -> None:
        for key, _ in self.selector.select(seconds):
            if key.fileobj is self.stdin:
                self._write_input()
            elif key.fileobj == REQUESTS:  # no request comes before the answer, so stdin was closed
                raise SystemExit
            elif key.fileobj == self.child_ended:
                os.read(self.child_ended, CHUNK)
            else:
                self._read(key.fileobj)

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

    def _read(self, stream: Any) -> bool:
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
        """Read all that the program wrote before it ended; its children may keep the streams open and continue to
        write.
        """
        for stream in self.buffers:
            for _ in range(DRAINS):
                if stream.closed or not self._read(stream):
                    break

    def _is_complete(self, output: StreamBuffer) -> bool:
        return self.stdout.closed or output.data.endswith(b"\n")

    def _finish(self, output: StreamBuffer) -> dict[str, Any]:
        status = _end(self.process)
        stderr = bytes(self.buffers[self.stderr].data).decode(errors="replace").strip().rpartition("\n")[2]
        if status:
            return _failed(f"exit status {status}", stderr)
        return {"kind": None, "output": bytes(output.data).decode(errors="replace").strip(), "detail": stderr}

    def close(self) -> None:
        """Kill the program and its group, and close the pipes."""
        _end(self.process)
        self.selector.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def _failed(kind: str, detail: str) -> dict[str, Any]:
    return {"kind": kind, "output": "", "detail": detail}


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program has ended. Where possible it is not reaped, so that its process id stays reserved until its
    group is killed.
    """
    if not hasattr(os, "waitid") or process.returncode is not None:
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill a program and its group unless it was reaped; its exit status."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def run_program(request: dict[str, Any], child_ended: int) -> dict[str, Any]:
    """Run a program and return the answer."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(
            request["argv"], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True
        )
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


def send(message: dict[str, Any]) -> None:
    """Write a line of JSON; exit if the reader has ended."""
    line = memoryview(json.dumps(message).encode() + b"\n")
    try:
        while line:
            line = line[os.write(ANSWERS, line) :]
    except OSError:
        raise SystemExit from None


def _ignore(*_: Any) -> None:
    """Do nothing: the signal is written to the wakeup descriptor."""


def _exit_on_signal(*_: Any) -> None:
    raise SystemExit


def serve() -> None:
    """Answer requests until stdin is closed."""
    child_ended, wake = os.pipe()
    for end in (child_ended, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _exit_on_signal)
    for line in iter(sys.stdin.buffer.readline, b""):
        send(run_program(json.loads(line), child_ended))


if __name__ == "__main__":
    serve()
