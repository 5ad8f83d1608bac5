"""What a study is: pieces of work that processes share, the numbers found in them, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any, Literal

import numpy as np

from sublevel.engine.arrays import Streams

Scale = Literal["full", "quick", "tiny"]
"""How much to run: for the findings, for a look, for the tests."""
Arrays = dict[str, Any]
Data = Mapping[str, Arrays]
"""Arrays by the key of their piece."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Work that one process does at a stretch: `compute(argument)` gives arrays."""

    key: str
    compute: Callable[[Any], Arrays]  # a function of a module, so that a process can find it
    argument: Any  # a frozen dataclass that decides the data
    cost: float  # seconds, roughly

    @property
    def config(self) -> dict[str, Any]:
        """What decides its data, but the code."""
        return {"key": self.key, **asdict(self.argument)}


@dataclass(frozen=True, slots=True)
class Study:
    """A question, the work that answers it, and the answer in words."""

    name: str
    question: str
    pieces: Callable[[Scale, int], list[Piece]]  # scale and seed ↦ work
    findings: Callable[[Data], list[str]]  # lines of text


def streams(seed: int, key: str, first: int, count: int) -> Streams:
    """The random numbers of trials first, first + 1, ...: each depends on seed, key and trial alone."""
    name = tuple(int(word) for word in np.frombuffer(sha256(key.encode()).digest(), dtype="<u4"))
    seeds = (np.random.SeedSequence(seed, spawn_key=(*name, trial)) for trial in range(first, first + count))
    return Streams(tuple(np.random.Generator(np.random.SFC64(child)) for child in seeds))


def generator(seed: int, key: str) -> np.random.Generator:
    """One stream."""
    return streams(seed, key, 0, 1).generators[0]
