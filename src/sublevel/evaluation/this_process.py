"""This process: the processors and threads that it may use, and the signals that end it."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Generator

SUBINTERPRETER = (
    "minimize was called in a subinterpreter, which NumPy and SciPy do not support: importing scipy.optimize may never "
    "end there. Call it in the main interpreter (with mod_wsgi: WSGIApplicationGroup %{GLOBAL}) or in another process"
)


def available_cores() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def can_start_threads() -> bool:
    """Whether threads can be started, which is not possible in a browser."""
    thread = threading.Thread(target=int)
    try:
        thread.start()
    except RuntimeError:
        return False
    thread.join()
    return True


@contextlib.contextmanager
def ignore_interrupts() -> Generator[None]:
    """Let processes that are started meanwhile ignore Ctrl-C."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


class SigtermAsInterrupt:
    """Handle SIGTERM like Ctrl-C, in the main thread and unless another handler is installed.

    This is a class because exceptions of the objective pass through it, and `contextlib.contextmanager` modifies
    exceptions.
    """

    __slots__ = ("_is_ours",)

    def __enter__(self) -> None:
        is_main = threading.current_thread() is threading.main_thread()
        self._is_ours = is_main and signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
        if self._is_ours:
            try:
                signal.signal(signal.SIGTERM, signal.default_int_handler)
            except ValueError as error:  # the main thread, but not of the main interpreter
                raise RuntimeError(SUBINTERPRETER) from error

    def __exit__(self, *_: object) -> None:
        is_installed = signal.getsignal(signal.SIGTERM) is signal.default_int_handler  # the objective may replace it
        if self._is_ours and is_installed:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
