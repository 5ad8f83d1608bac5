"""A live line about a run: evaluations, best value, step size, axis ratio, time left."""

from __future__ import annotations

import io
import logging
import shutil
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Never, TextIO, TypeVar

import numpy as np

from sublevel.run.history import axis_ratio, real_axes, widest_deviation

if TYPE_CHECKING:
    from tqdm import tqdm

    from sublevel.run.optimizer import Optimizer

T = TypeVar("T")
LOGGER = logging.getLogger(__name__)
EVERY = 0.1
"""Seconds between two updates of a line on a terminal."""
SELDOM = 30.0
"""Seconds between two lines in a log, which cannot be overwritten."""
SHARE = 0.01
"""Fraction of the time for showing progress; with a thousand variables the axis ratio takes a second."""


class Progress:
    """Shows one changing line on a terminal, elsewhere a line every 30 seconds, and the last state at the end."""

    def __init__(
        self, maxfevals: float | None, stream: TextIO | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.maxfevals, self.clock = maxfevals, clock
        self.stream = stream or sys.stderr or io.StringIO()  # stderr may be closed
        self.is_over = False  # the stream took no more
        self.bar: tqdm[Never] | None = None
        self.is_live = bool(self._try(self.stream.isatty)) or _is_notebook()
        if self.is_live:
            self.bar = self._try(lambda: _bar(maxfevals, self.stream))
        self.began = clock()
        self.next = self.began + (0.0 if self.is_live else SELDOM)
        self.width = 0

    def update(self, done: Optimizer) -> None:
        """Show the state of the run, if it is time to."""
        now = self.clock()
        if now >= self.next and not self.is_over:
            text = state_line(done) + self._left(done.nfev)
            self._try(lambda: self._show(text, done.nfev))
            self.next = self.clock() + max(EVERY if self.is_live else SELDOM, (self.clock() - now) / SHARE)

    def end(self, done: Optimizer) -> None:
        """Show the last state permanently."""
        if not self.is_over:
            text = state_line(done)
            self._try(lambda: self._finish(text, done.nfev))

    def _try(self, write: Callable[[], T]) -> T | None:
        """Use the stream, which may be closed, broken or the user's own: after an error nothing more is shown."""
        try:
            return write()
        except Exception as error:
            self.is_over = True
            LOGGER.info("progress is no longer shown: %s", type(error).__name__)
            return None

    def _finish(self, text: str, nfev: int) -> None:
        self._show(text, nfev)
        if self.bar is not None:
            self.bar.close()
        elif self.is_live:
            print(file=self.stream, flush=True)

    def _show(self, text: str, nfev: int) -> None:
        if self.bar is not None:
            self.bar.n = nfev
            self.bar.set_description_str(text, refresh=True)
        elif self.is_live:
            text = text[: shutil.get_terminal_size().columns - 1]
            print("\r" + text.ljust(self.width), end="", file=self.stream, flush=True)
            self.width = len(text)
        else:
            print(text, file=self.stream, flush=True)

    def _left(self, nfev: int) -> str:
        """The time left at most, if there is a budget."""
        if self.maxfevals is None or not nfev:
            return ""
        return f", {duration((self.clock() - self.began) * max(self.maxfevals - nfev, 0) / nfev)} left"


def state_line(done: Optimizer) -> str:
    """The state of a run in one line."""
    axes = real_axes(done.theta, done.space)
    restarts = f", restart {done.restarts}" if done.restarts else ""
    ratio = f", axis ratio {axis_ratio(axes):.2g}" if axes.size and axes[-1] > 0 else ""
    widest = f", std {widest_deviation(done):.2g}" if axes.size else ""
    violation = "" if done.is_feasible else f", violation {done.maxcv:.2g}"
    discrete = done.theta.discrete
    if discrete is None:
        settled = ""
    else:
        settled = f", {discrete.variables - discrete.unsettled} of {discrete.variables} discrete variables settled"
    value = f"best {done.best_fun:.8g}"
    if done.noise:
        error = "" if done.estimate is None else f" ± {done.estimate.error:.2g}"
        value = f"average {done.best_fun:.6g}{error}"
    model = ""
    if (surrogate := done.run_state.surrogate) is not None:
        model = f", {surrogate.saved} saved by the model, agreement {surrogate.agreement:.2f}"
    return f"{done.nfev} evaluations, {value}{violation}{widest}{ratio}{settled}{restarts}{model}"


def duration(seconds: float) -> str:
    """Seconds, minutes, hours or days as text."""
    if not seconds < 360_000:
        return "days"
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.0f} h"


def _bar(maxfevals: float | None, stream: TextIO) -> tqdm[Never] | None:
    """A tqdm bar, if tqdm is installed; it handles widths and other bars."""
    try:
        from tqdm import tqdm
    except ImportError:
        return None
    total = None if maxfevals is None or maxfevals == np.inf else maxfevals
    form = "{desc}" + ("" if total is None else " |{bar:16}|")
    return tqdm(total=total, bar_format=form, file=stream, leave=True, dynamic_ncols=True)


def _is_notebook() -> bool:
    """Whether a Jupyter kernel runs this code; other packages may have imported IPython without one."""
    ipython = sys.modules.get("IPython")
    return "ipykernel" in sys.modules and ipython is not None and ipython.get_ipython() is not None
