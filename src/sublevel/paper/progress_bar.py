"""A progress bar that counts expected seconds of work."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any, TextIO

from sublevel.run.progress import duration


class ProgressBar:
    """A bar with the remaining time on a terminal, an occasional line elsewhere."""

    def __init__(self, label: str, stream: TextIO | None = None, interval: float = 15.0) -> None:
        self.label = label
        self.stream = sys.stderr if stream is None else stream
        self.interval = interval
        self.done = self.total = self.reused = 0.0
        self.started = self.printed = time.monotonic()
        self.bar: Any = None

    def begin(self, costs: Sequence[float], present: Sequence[bool]) -> None:
        """Start the clock; results of an earlier run do not count for the speed."""
        self.total = sum(costs)
        self.done = self.reused = sum(cost for cost, there in zip(costs, present, strict=True) if there)
        self.started = self.printed = time.monotonic()
        if any(present):
            self.print_line(f"{sum(present)} of {len(present)} parts were computed by an earlier run")
        self.bar = _bar(self.label, self.total, self.reused, self.stream)

    def advance(self, work: float) -> None:
        """Count finished work."""
        self.done += work
        if self.bar is not None:
            self.bar.update(work)

    def refresh(self) -> None:
        """Show the current state."""
        if self.bar is not None:
            self.bar.refresh()
        elif time.monotonic() - self.printed >= self.interval:
            self.printed = time.monotonic()
            self.print_line(f"{100 * self.done / self.total:.0f} % done, {self.time_left()}")

    def time_left(self) -> str:
        """The remaining time as text."""
        fresh = self.done - self.reused
        if fresh <= 0:
            return "no estimate yet"
        seconds = (time.monotonic() - self.started) * (self.total - self.done) / fresh
        return f"about {duration(seconds)} left"

    def end(self) -> None:
        """Remove the bar."""
        if self.bar is not None:
            self.bar.close()

    def print_line(self, line: str) -> None:
        """Print a line of text."""
        print(f"{self.label}: {line}", file=self.stream, flush=True)


def _bar(label: str, total: float, reused: float, stream: TextIO) -> Any:
    """A tqdm bar if the stream is a terminal and tqdm is installed."""
    if not stream.isatty():
        return None
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    layout = "{desc}: {percentage:3.0f} %|{bar}| {elapsed} elapsed, {remaining} left"
    return tqdm(total=total, initial=reused, desc=label, bar_format=layout, smoothing=0.05, file=stream, leave=False)
