"""Random numbers of trials, which depend on seed, name and number of the trial alone."""

from __future__ import annotations

from hashlib import sha256

import numpy as np

from sublevel.engine.arrays import Streams

SEED = 12044141
"""The default seed: the number of the paper on arXiv."""


def streams(seed: int, key: str, first: int, count: int) -> Streams:
    """The random numbers of trials first, first + 1, ... of the setting named `key`."""
    name = tuple(int(word) for word in np.frombuffer(sha256(key.encode()).digest(), dtype="<u4"))
    seeds = (np.random.SeedSequence(seed, spawn_key=(*name, trial)) for trial in range(first, first + count))
    return Streams(tuple(np.random.Generator(np.random.SFC64(child)) for child in seeds))


def generator(seed: int, key: str) -> np.random.Generator:
    """The random numbers of the first trial."""
    return streams(seed, key, 0, 1).generators[0]
