"""How far the work is and how long it will still take."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from sublevel.run.progress import duration


class WorkBar:
    """A bar with the time left on a terminal, a line now and then elsewhere. Counts seconds of expected work, not pieces."""

    def __init__(self, label: str, stream: TextIO | None = None, interval: float = 15.0) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.interval = interval
        self.done = self.total = self.reused = 0.0
        self.started = self.said = time.monotonic()
        self.bar: Any = None

    def begin(self, costs: Sequence[float], present: Sequence[bool]) -> None:
        """Start the clock; parts that are there from an earlier run do not count for the speed."""
        self.total = sum(costs)
        self.done = self.reused = sum(cost for cost, there in zip(costs, present, strict=True) if there)
        self.started = self.said = time.monotonic()
        if any(present):
            self.say(f"{sum(present)} of {len(present)} parts are there from an earlier run")
        self.bar = _bar(self.label, self.total, self.reused, self.stream)

    def advance(self, work: float) -> None:
        """Some work is finished."""
        self.done += work
        if self.bar is not None:
            self.bar.update(work)

    def tick(self) -> None:
        """Show the present state."""
        if self.bar is not None:
            self.bar.refresh()
        elif time.monotonic() - self.said >= self.interval:
            self.said = time.monotonic()
            self.say(f"{100 * self.done / self.total:.0f} % done, {self.left()}")

    def left(self) -> str:
        """The time left, in words."""
        fresh = self.done - self.reused
        if fresh <= 0:
            return "no estimate yet"
        seconds = (time.monotonic() - self.started) * (self.total - self.done) / fresh
        return f"about {duration(seconds)} left"

    def end(self) -> None:
        """Clear the bar away."""
        if self.bar is not None:
            self.bar.close()

    def say(self, line: str) -> None:
        """One line of text."""
        print(f"{self.label}: {line}", file=self.stream, flush=True)


def _bar(label: str, total: float, reused: float, stream: TextIO) -> Any:
    """A tqdm bar if there is a terminal to show it on and tqdm is installed."""
    if not stream.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    layout = "{desc}: {percentage:3.0f} %|{bar}| {elapsed} gone, {remaining} left"
    return tqdm(total=total, initial=reused, desc=label, bar_format=layout, smoothing=0.05, file=stream, leave=False)
