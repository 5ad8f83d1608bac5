"""Ask and tell, not as they are meant; after it the run goes on as it should."""

from __future__ import annotations

from typing import Any

import numpy as np

from faults.library import Stepper
from faults.objectives import NAN, Own, bowl


def raise_own(*_: Any, **__: Any) -> None:
    """A callback that raises."""
    raise Own("own")


def values(stepper: Stepper, asked: Any) -> list[float]:
    return [bowl(stepper.point(one)) for one in asked]


def rows(stepper: Stepper) -> Any:
    return [np.array([0.1 * index, 0.2]) for index in range(stepper.popsize)]


def told(change: Any) -> Any:
    """A misuse that tells what `change` makes of the values."""

    def misuse(stepper: Stepper) -> None:
        asked = stepper.ask()
        stepper.tell(asked, change(values(stepper, asked)))

    return misuse


def replaced(number: Any) -> Any:
    return lambda values: [number, *values[1:]]


told_too_few = told(lambda values: values[:-1])
told_too_many = told(lambda values: [*values, 1.0])
told_none = told(lambda values: None)
told_one_none = told(replaced(None))
told_strings = told(lambda values: [f"f{value}" for value in values])
told_complex = told(lambda values: [value + 1j for value in values])
told_pairs = told(lambda values: [[value, value] for value in values])
told_one_nan = told(replaced(NAN))
told_nan = told(lambda values: [NAN for _ in values])
told_inf = told(lambda values: [float("inf") for _ in values])


def told_before_asked(stepper: Stepper) -> None:
    points = rows(stepper)
    stepper.tell(points, [bowl(point) for point in points])


def told_twice(stepper: Stepper) -> None:
    asked = stepper.ask()
    stepper.tell(asked, values(stepper, asked))
    stepper.tell(asked, values(stepper, asked))


def told_foreign(stepper: Stepper) -> None:
    stepper.ask()
    told_before_asked(stepper)


def told_nan_points(stepper: Stepper) -> None:
    asked = stepper.ask()
    stepper.tell([np.full(2, NAN) for _ in asked], values(stepper, asked))


def told_the_first(stepper: Stepper) -> None:
    first = stepper.ask()
    stepper.ask()
    stepper.tell(first, values(stepper, first))


def told_turned(stepper: Stepper) -> None:
    asked = list(stepper.ask())[::-1]
    stepper.tell(asked, values(stepper, asked))


def told_overwritten(stepper: Stepper) -> None:
    asked = stepper.ask()
    numbers = values(stepper, asked)
    for one in asked:
        point = stepper.point(one)
        point[...] = 99.0
    stepper.tell(asked, numbers)
