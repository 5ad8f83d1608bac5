"""Fixtures that several files use."""

from __future__ import annotations

import signal

import numpy as np
import pytest

# A shell that starts the tests in the background ignores Ctrl-C and SIGQUIT, nohup ignores SIGHUP, and processes
# inherit that.
for number, handler in (
    (signal.SIGINT, signal.default_int_handler),
    (signal.SIGHUP, signal.SIG_DFL),
    (signal.SIGQUIT, signal.SIG_DFL),
):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, handler)


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20120707)
