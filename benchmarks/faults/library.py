"""What the cases ask of a library."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from faults.objectives import EXECUTORS
from faults.verdict import Answer

BUDGET = 600
BOX = [(-3.0, 3.0), (-3.0, 3.0)]
"""Bounds for those who cannot do without."""


def named(text: str) -> frozenset[str]:
    """The features in a text, one word each."""
    return frozenset(text.split())


ALL = named(
    "x0 sigma0 bounds popsize maxfevals maxiter ftarget seed method restarts callback keywords vectorized workers "
    "timeout on_error store database checksums stored_workers shared_store ask_tell executor progress snapshots"
)


class Given(dict[str, Any]):
    """The arguments that a case is about; all others are the library's usual ones."""

    def renamed(self, **names: str) -> dict[str, Any]:
        """The same under the library's own names."""
        return {names.get(name, name): value for name, value in self.items()}


@dataclass
class Stepper:
    """A library's ask and tell. `tell` takes what `ask` returned, and a value for each."""

    ask: Callable[[], Any]
    tell: Callable[[Any, Any], Any]
    is_over: Callable[[], bool]
    finished: Callable[[], Answer]
    popsize: int
    point: Callable[[Any], Any] = np.asarray  # of one of those that `ask` returned


class Library:
    """A library by its documented interface. What it has no feature for is never asked."""

    name: ClassVar[str]
    package: ClassVar[str]  # as `pip` knows it
    features: ClassVar[frozenset[str]]

    @property
    def title(self) -> str:
        """Name and version."""
        return f"{self.name} {version(self.package)}"

    def minimize(self, fun: Any, given: Given) -> Answer:
        """Minimise with everything that is given."""
        raise NotImplementedError

    def stepper(self) -> Stepper:
        """Ask and tell on the usual problem."""
        raise NotImplementedError

    def store(self, fun: Any, file: Path, given: Given) -> Answer:
        """Minimise, and keep in a file what it takes to go on."""
        raise NotImplementedError

    def resume(self, fun: Any, file: Path, given: Given) -> Answer:
        """Go on from the file."""
        raise NotImplementedError

    def numbers(self, file: Path) -> list[float]:
        """What the file says of the run."""
        raise NotImplementedError

    def forge(self, file: Path, payload: bytes, well: bool) -> None:
        """Put a pickle into the file where arrays or state are, if `well` so that everything else about the file is in
        order.
        """
        file.write_bytes(payload)


@contextlib.contextmanager
def threads(count: int) -> Generator[ThreadPoolExecutor]:
    """Threads of the user's that evaluate; objectives know of them."""
    with ThreadPoolExecutor(count) as executor:
        EXECUTORS.append(executor)
        yield executor


@contextlib.contextmanager
def keeping(kept: Callable[[BaseException], int]) -> Generator[None]:
    """Write on an exception how many evaluations are in the caller's hands."""
    try:
        yield
    except BaseException as error:
        with contextlib.suppress(Exception):
            vars(error)["kept"] = kept(error)
        raise


def columns(pairs: Any) -> Any:
    """(low, high) pairs as the lower and the upper bounds, for libraries that want them so; what is not pairs stays as
    it is.
    """
    try:
        return [[pair[0] for pair in pairs], [pair[1] for pair in pairs]]
    except (TypeError, IndexError):
        return pairs


def as_array(given: Any) -> Any:
    """Lists as arrays, as the library's documentation does; anything else as it is."""
    return np.array(given) if isinstance(given, list | tuple) else given
