"""Names and values of variables as strings: choices by their value, integers without decimals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.families import Family
from sublevel.run.parameters import Choice, Space
from sublevel.run.search_space import SearchSpace
from sublevel.summaries import MOST_NUMBERS, listed, short_repr
from sublevel.validation import default_name

LONGEST_TEXT = 60
"""Characters of a choice that is shown as it is."""


@dataclass(frozen=True, slots=True)
class Labels:
    """Names of the d variables of a search, and the values that their numbers represent."""

    names: tuple[str, ...] | None  # d of them, if the user gave some
    space: SearchSpace | None
    parameters: Space | None  # if the user gave one

    def name(self, index: int) -> str:
        """The user's name of a variable; x[0], x[1] … if none were given."""
        return default_name(index) if self.names is None else self.names[index]

    def discrete(self, d: int) -> NDArray[np.bool_]:
        """Which of the d variables are integers or choices."""
        return np.zeros(d, dtype=np.bool_) if self.space is None else self.space.discrete

    @property
    def by_name(self) -> bool:
        """Whether a point is shown by the names of its variables: there is a space, or an integer."""
        return self.parameters is not None or (self.space is not None and bool(self.space.discrete.any()))

    def values(self, x: Array) -> dict[str, Any]:
        """The values of a point x (d,) by name; integers as int."""
        if self.parameters is not None:
            return self.parameters.decode(x)
        whole = self.discrete(x.size)
        return {self.name(i): int(v) if whole[i] else v for i, v in enumerate(x.tolist())}

    def held(self, x: Array) -> dict[str, str]:
        """Values of the integers and choices of a point x (d,) as strings, by name."""
        return {self.name(i): self.text(i, float(x[i])) for i in np.flatnonzero(self.discrete(x.size)).tolist()}

    def text(self, index: int, number: float, digits: int = 8) -> str:
        """The value of a variable as text."""
        if self.parameters is not None:
            parameter = list(self.parameters.parameters.values())[index]
            if isinstance(parameter, Choice):
                return value_text(parameter.decode(number))
        if self.space is not None and bool(self.space.discrete[index]):
            return f"{number:.0f}"
        return f"{number:.{digits}g}"

    def point(self, x: Array, digits: int = 6) -> str:
        """A point x (d,) in one line, by name; of many variables the first and the last."""
        parts = [
            "…" if i is None else f"{self.name(i)} = {self.text(i, float(x[i]), digits)}"
            for i in listed(x.size, MOST_NUMBERS)
        ]
        return ", ".join(parts + ([f"({x.size})"] if x.size > MOST_NUMBERS else []))

    def constants(self) -> dict[str, str]:
        """Constants of a space as strings, by name."""
        return {} if self.parameters is None else {n: value_text(v) for n, v in self.parameters.constants.items()}

    def spread(self, index: int, deviations: Array, theta: Family) -> str:
        """How far a variable scatters in the search: its standard deviation (d,), or the probability of a choice's most
        probable value.
        """
        probabilities = self.probabilities(theta)
        if index in probabilities:
            return f"probability {probabilities[index]:.3g}"
        return f"{deviations[index]:.3g}"

    def probabilities(self, theta: Family) -> dict[int, float]:
        """The probability of the most probable value of each choice, by the number of its variable."""
        if self.space is None or theta.choices is None:
            return {}
        return dict(zip(self.space.choices.tolist(), (1.0 - theta.choices.leaving).tolist(), strict=True))

    def spreads(self, deviations: Array, theta: Family) -> str:
        """How far each variable scatters in the search, in one line."""
        parts = [
            "…" if i is None else f"{self.name(i)} {self.spread(i, deviations, theta)}"
            for i in listed(deviations.size, MOST_NUMBERS)
        ]
        return ", ".join(parts)


def value_text(value: object) -> str:
    """The value of a choice or a constant as a string: a short printable string unchanged, others by their `repr`."""
    is_plain = isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= LONGEST_TEXT
    return str(value) if is_plain else short_repr(value)
