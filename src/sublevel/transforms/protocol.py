"""What a transform is to the rest."""

from __future__ import annotations

from typing import Any, Protocol

from sublevel.families.protocol import Family
from sublevel.tangent import Tangent

Memory = Any
"""What a transform remembers: arrays with leading axes (...), tuples and dataclasses of them, or None.

A memory of vectors that live in the whitened frame has a method `carried(move)` that takes them to the next frame.
"""


class Transform(Protocol):
    """tangent, memory, θ → tangent, memory: scales a tangent or adds what it remembers. The only place with memory."""

    def init(self, theta: Family, sample_size: int) -> Memory: ...
    def __call__(self, tangent: Tangent, memory: Memory, theta: Family, /) -> tuple[Tangent, Memory]: ...
