"""How the objective of a curvature is called, kept for questions that come later."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sublevel.evaluation.evaluators import Evaluator, evaluator, with_args
from sublevel.evaluation.failures import NAN, Failures, OnError
from sublevel.run.diagnosis import Finding
from sublevel.validation import Workers, as_flag, as_on_error, as_timeout, as_workers, validate_callable


@dataclass(frozen=True, slots=True, eq=False)
class Calls:
    """The objective of points alone, and how to evaluate it. Pickled, it is None: functions of a session often cannot be stored."""

    fun: Callable[..., Any]
    vectorized: bool = False
    workers: Workers = 1
    timeout: float | None = None
    on_error: OnError = "raise"

    @classmethod
    def checked(cls, fun: Any, args: Any, vectorized: Any, workers: Any, timeout: Any, on_error: Any) -> Calls:
        """From what the user gave."""
        validate_callable("fun", fun)
        how = as_flag("vectorized", vectorized), as_workers(workers), as_timeout(timeout), as_on_error(on_error)
        return cls(with_args(fun, args), *how)

    @contextmanager
    def open(self, failures: Failures | None = None) -> Generator[Evaluator]:
        """An evaluator, closed in the end; failed evaluations are noted in `failures`."""
        evaluate = evaluator(self.fun, self.vectorized, self.workers, self.timeout, self.on_error, failures)
        try:
            yield evaluate
        finally:
            evaluate.close()

    def __reduce__(self) -> tuple[Callable[[], None], tuple[()]]:
        """None."""
        return _no_calls, ()

    def __deepcopy__(self, memo: dict[int, Any]) -> Calls:
        """The same: there is nothing in it that could change."""
        return self


def _no_calls() -> None:
    return None


def calls_for(kept: Calls | None, fun: Any, **given: Any) -> Calls:
    """Calls of `fun` if there is one, else those that were kept; what is `given` and not None replaces their settings."""
    told = {name: setting for name, setting in given.items() if setting is not None}
    if fun is not None:
        return Calls.checked(fun, **{"args": (), "vectorized": False, "workers": 1, "timeout": None, "on_error": "raise"} | told)
    if kept is None:
        raise ValueError(
            "the objective is not at hand: a curvature that was pickled or loaded does not keep it. Give it again by `fun`, with `args`."
        )
    if "args" in told:
        raise ValueError(f"`args` belong to `fun`, got args={told['args']!r} without it. The objective that was kept has its own.")
    how = {name: told.get(name, getattr(kept, name)) for name in ("vectorized", "workers", "timeout", "on_error")}
    return Calls.checked(kept.fun, (), **how)


def failed_calls(failures: Failures) -> tuple[Finding, ...]:
    """A finding if evaluations failed otherwise than by returning NaN."""
    count = len(failures) - failures.counts[NAN]
    if not count:
        return ()
    last = [failure for failure in failures.last if failure.kind != NAN][-1]
    sentence = f"{count} evaluations failed and were left out ({failures!r}); the last one: {last.what}"
    return (Finding("failures", sentence, {"evaluations": count}),)
