"""The objective of a curvature and how to evaluate it, kept for later calls."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sublevel.evaluation.evaluators import Evaluator
from sublevel.evaluation.failures import NAN, Failures, OnError
from sublevel.evaluation.objective import bind_args, name_parameters
from sublevel.run.arguments import Workers
from sublevel.run.constraints import Constraints
from sublevel.run.diagnosis import Finding
from sublevel.run.inside import KnownConstraints, evaluator_inside
from sublevel.run.parameters import Space
from sublevel.validation import as_flag, as_on_error, as_timeout, as_workers, validate_callable


@dataclass(frozen=True, slots=True, eq=False)
class ObjectiveCalls:
    """The objective with its arguments, and how to evaluate it. Pickled as None: functions often cannot be pickled."""

    fun: Callable[..., object]
    vectorized: bool = False
    workers: Workers = 1
    timeout: float | None = None
    on_error: OnError = "raise"
    constraints: Constraints | None = None  # inside which all points must be

    @classmethod
    def from_arguments(
        cls,
        fun: Callable[..., object],
        args: object = (),
        vectorized: object = False,
        workers: object = 1,
        timeout: object = None,
        on_error: object = "raise",
        constraints: KnownConstraints | None = None,
    ) -> ObjectiveCalls:
        """Validate the arguments of a public function."""
        validate_callable("fun", fun)
        how = as_flag("vectorized", vectorized), as_workers(workers), as_timeout(timeout), as_on_error(on_error)
        return cls(bind_args(fun, args), *how, None if constraints is None else constraints.complete)

    @contextmanager
    def open(self, failures: Failures | None = None) -> Generator[Evaluator]:
        """An evaluator that is closed at the end; failed evaluations are recorded in `failures`."""
        how = self.vectorized, self.workers, self.timeout, self.on_error, failures
        evaluate = evaluator_inside(self.constraints, self.fun, *how)
        try:
            yield evaluate
        finally:
            evaluate.close()

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        """Pickle as None."""
        return type(None), ()

    def __deepcopy__(self, memo: object) -> ObjectiveCalls:
        """The same object, which is immutable."""
        return self


def resolve_calls(
    default: ObjectiveCalls | None,
    fun: Callable[..., object] | None,
    space: Space | None,
    constraints: Callable[[object, object], KnownConstraints | None],
    **given: Any,
) -> ObjectiveCalls:
    """Calls of `fun` if given, with named parameters if there is a space, else the `default` ones; settings in `given`
    that are not None replace theirs. The `constraints` depend on `vectorized` and `workers`.
    """
    settings = {name: setting for name, setting in given.items() if setting is not None}
    if fun is not None:
        called = named_objective(fun, space)
    elif default is None:
        raise ValueError(
            "a curvature that was pickled, or is from a file, does not keep the objective: pass it again as `fun`, "
            "with its `args`."
        )
    elif "args" in settings:
        raise ValueError(f"`args` requires `fun`, got args={settings['args']!r} without it.")
    else:
        how = {name: getattr(default, name) for name in ("vectorized", "workers", "timeout", "on_error")}
        called, settings = default.fun, how | settings
    known = constraints(settings.get("vectorized", False), settings.get("workers", 1))
    return ObjectiveCalls.from_arguments(called, **settings, constraints=known)


def named_objective(fun: Callable[..., object], space: Space | None) -> Callable[..., object]:
    """The objective, which must be callable, as a function of points; with a space it takes named parameters itself."""
    validate_callable("fun", fun)
    return name_parameters(fun, space)


def failure_findings(failures: Failures) -> tuple[Finding, ...]:
    """A finding if evaluations failed other than by returning NaN."""
    count = len(failures) - failures.counts[NAN]
    if not count:
        return ()
    last = [failure for failure in failures.last if failure.kind != NAN][-1]
    sentence = f"{count} evaluations failed and were left out ({failures!r}); the last one: {last.detail}"
    return (Finding("failures", sentence, {"evaluations": count}),)
