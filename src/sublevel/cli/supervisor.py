"""The parent process of external programs: runs one at a time, and kills it when the process that asked for it is gone.

This file is executed as a script and imports only the standard library, so that it starts quickly. A request is a line of JSON on stdin:
`argv`, `input` for the stdin of the program, `timeout` in seconds or null, `limit` in bytes of its output, and `tail`: whether to keep
the end of a longer output instead of refusing it. The answer is a line with the `pid` of the program, then a line with `kind` (what went
wrong, or null), `output` and `detail`. When stdin ends, which the kernel sees to even after SIGKILL, the program and its group are killed.
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
"""Seconds in which children of a program that has ended may still complete its output."""
CHUNK = 65536
"""Bytes of one read."""
DRAINS = 64
"""Reads that empty any pipe: Linux lets them hold 1 MiB."""
LAST_WORDS = 4096
"""Bytes of stderr that are kept."""


class Kept:
    """The first or the last bytes of a stream."""

    def __init__(self, limit: int, tail: bool) -> None:
        self.limit, self.tail, self.data = limit, tail, bytearray()

    @property
    def is_too_long(self) -> bool:
        """Whether there was more than the limit, and the first bytes were wanted."""
        return not self.tail and len(self.data) > self.limit

    def add(self, part: bytes) -> None:
        """Keep more."""
        self.data += part
        if self.tail and len(self.data) > self.limit:
            del self.data[: -self.limit]


class Dialogue:
    """A running program: what it is to read and what it has written."""

    def __init__(self, process: subprocess.Popen[bytes], request: dict[str, Any], child_ended: int) -> None:
        self.process, self.request, self.child_ended = process, request, child_ended
        self.input = memoryview(request["input"].encode())
        self.stdin: Any = process.stdin
        self.stdout: Any = process.stdout
        self.stderr: Any = process.stderr
        self.kept = {self.stdout: Kept(request["limit"], request["tail"]), self.stderr: Kept(LAST_WORDS, tail=True)}
        self.selector = selectors.DefaultSelector()
        for stream in (self.stdin, self.stdout, self.stderr):
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream, selectors.EVENT_WRITE if stream is self.stdin else selectors.EVENT_READ)
        for end in (REQUESTS, child_ended):
            self.selector.register(end, selectors.EVENT_READ)

    def answer(self) -> dict[str, Any]:
        """Read and write until the program has ended, for `timeout` seconds at most."""
        timeout, output = self.request["timeout"], self.kept[self.stdout]
        deadline, has_ended = inf if timeout is None else time.monotonic() + timeout, False
        while not output.is_too_long:
            if not has_ended and _has_ended(self.process):
                has_ended, deadline = True, time.monotonic() + GRACE
                self._drain()
                continue
            if has_ended and (self._is_complete(output) or time.monotonic() >= deadline):
                return self._verdict(output)
            if time.monotonic() >= deadline:
                return _failed("timeout", f"longer than {timeout:g} s")
            self._wait(None if deadline == inf else max(deadline - time.monotonic(), 0.0))
        return _failed("too much output", f"more than {output.limit} bytes")

    def _wait(self, seconds: float | None) -> None:
        for key, _ in self.selector.select(seconds):
            if key.fileobj is self.stdin:
                self._feed()
            elif key.fileobj == REQUESTS:  # nothing is asked before the answer: this is the end of the driver
                raise SystemExit
            elif key.fileobj == self.child_ended:
                os.read(self.child_ended, CHUNK)
            else:
                self._read(key.fileobj)

    def _feed(self) -> None:
        """Write some of the input; a program may end without reading it."""
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
        """Read what is there, once; False if there is nothing now, or nothing any more."""
        try:
            part = os.read(stream.fileno(), CHUNK)
        except BlockingIOError:
            return False
        self.kept[stream].add(part)
        if not part:
            self.selector.unregister(stream)
            stream.close()
        return bool(part)

    def _drain(self) -> None:
        """Read all that the program wrote before its end; others may hold its streams open, and write on."""
        for stream in self.kept:
            for _ in range(DRAINS):
                if stream.closed or not self._read(stream):
                    break

    def _is_complete(self, output: Kept) -> bool:
        return self.stdout.closed or output.data.endswith(b"\n")

    def _verdict(self, output: Kept) -> dict[str, Any]:
        status = _end(self.process)
        last_words = bytes(self.kept[self.stderr].data).decode(errors="replace").strip().rpartition("\n")[2]
        if status:
            return _failed(f"exit status {status}", last_words)
        return {"kind": None, "output": bytes(output.data).decode(errors="replace").strip(), "detail": last_words}

    def close(self) -> None:
        """Kill the program and its group, and close the pipes."""
        _end(self.process)
        self.selector.close()
        for stream in (self.stdin, self.stdout, self.stderr):
            stream.close()


def _failed(kind: str, detail: str) -> dict[str, Any]:
    return {"kind": kind, "output": "", "detail": detail}


def _has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether a program has ended. Where possible its number stays taken until its group was killed."""
    if not hasattr(os, "waitid") or process.returncode is not None:
        return process.poll() is not None
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(process: subprocess.Popen[bytes]) -> int:
    """Kill a program with its group, unless that was done; its exit status."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    return process.wait()


def answer(request: dict[str, Any], child_ended: int) -> dict[str, Any]:
    """Run a program."""
    pipe = subprocess.PIPE
    try:
        process = subprocess.Popen(request["argv"], bufsize=0, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True)
    except (OSError, ValueError) as error:
        return _failed("not started", str(error))
    dialogue = None
    try:
        send({"pid": process.pid})
        dialogue = Dialogue(process, request, child_ended)
        return dialogue.answer()
    finally:
        if dialogue is None:
            _end(process)
        else:
            dialogue.close()


def send(message: dict[str, Any]) -> None:
    """Write a line, or leave if the reader is gone."""
    line = memoryview(json.dumps(message).encode() + b"\n")
    try:
        while line:
            line = line[os.write(ANSWERS, line) :]
    except OSError:
        raise SystemExit from None


def _ignore(*_: Any) -> None:
    """Have the signal written to the wakeup descriptor, which is all that it is for."""


def _leave(*_: Any) -> None:
    raise SystemExit


def serve() -> None:
    """Answer one request after the other until there are no more."""
    child_ended, wake = os.pipe()
    for end in (child_ended, wake):
        os.set_blocking(end, False)
    signal.signal(signal.SIGCHLD, _ignore)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, _leave)
    for line in iter(sys.stdin.buffer.readline, b""):
        send(answer(json.loads(line), child_ended))


if __name__ == "__main__":
    serve()
