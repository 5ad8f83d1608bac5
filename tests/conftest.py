"""Fixtures that several files use."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def rng():
    """A generator with a fixed seed."""
    return np.random.default_rng(20120707)
