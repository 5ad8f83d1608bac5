"""Fixtures that several files use."""

from __future__ import annotations

import signal

import numpy as np
import pytest

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # who starts the tests in the background ignores Ctrl-C, and so would they
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20120707)
