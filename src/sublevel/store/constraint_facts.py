"""Constraints of a run as numbers and text. Their functions cannot be stored and must be given again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

import numpy as np

from sublevel.engine.ordering import ORDERINGS
from sublevel.run.constraints import Constraints, Part
from sublevel.store.errors import FormatError
from sublevel.store.serialize import as_list

REFUSAL = "its constraints are invalid"
MOST = 10**6
"""Most components of a constraint."""


def describe_constraints(constraints: Constraints, handling: object) -> dict[str, object]:
    """What can be stored of constraints: names, bounds, the tolerance, and how they are handled."""
    parts: list[list[object]] = []
    for part, is_kept in _all_parts(constraints):
        numbers = [part.places.tolist(), part.lower.tolist(), part.upper.tolist()]
        parts.append([part.group, is_kept, part.is_own, *numbers])
    return {
        "tolerance": constraints.tolerance,
        "handling": handling,
        "names": list(constraints.names),
        "parts": parts,
    }


def _all_parts(constraints: Constraints) -> list[tuple[Part, bool]]:
    return [(part, False) for part in constraints.parts] + [(part, True) for part in constraints.kept]


def has_functions(facts: Mapping[str, object]) -> bool:
    """Whether constraints have functions, which are not stored."""
    return not all(cast("list[object]", part)[2] is True for part in as_list(facts["parts"], None, REFUSAL))


def is_same(constraints: Constraints, facts: Mapping[str, object]) -> bool:
    """Whether constraints have the stored names and bounds."""
    found = describe_constraints(constraints, None)
    return all(found[name] == facts[name] for name in ("names", "parts", "tolerance"))


def stored_constraints(facts: Mapping[str, object]) -> Constraints:
    """Constraints without functions; FormatError if the description is not valid."""
    if set(facts) != {"tolerance", "handling", "names", "parts"}:
        raise FormatError(REFUSAL)
    names, tolerance, handling = as_list(facts["names"], None, REFUSAL), facts["tolerance"], facts["handling"]
    is_named = handling is None or (isinstance(handling, str) and handling in ORDERINGS)
    is_text = all(isinstance(name, str) and name.isprintable() and len(name) < 100 for name in names)
    if not isinstance(tolerance, float) or not 0 <= tolerance < np.inf or not is_named or not is_text:
        raise FormatError(REFUSAL)
    parts = [_stored_part(as_list(part, 6, REFUSAL), len(names)) for part in as_list(facts["parts"], None, REFUSAL)]
    handled, kept = (tuple(part for part, is_kept in parts if is_kept == wanted) for wanted in (False, True))
    return Constraints(handled, kept, tuple(map(str, names)), tolerance)


def _stored_part(facts: list[object], groups: int) -> tuple[Part, bool]:
    """A part, and whether it is satisfied before the objective is called."""
    group, is_kept, is_own, *lists = facts
    places, lower, upper = (as_list(part, None, REFUSAL) for part in lists)
    if not isinstance(is_kept, bool) or not isinstance(is_own, bool) or not len(places) == len(lower) == len(upper):
        raise FormatError(REFUSAL)
    if not isinstance(group, int) or not 0 <= group < groups:
        raise FormatError(REFUSAL)
    if not places or not all(isinstance(place, int) and 0 <= place < MOST for place in places):
        raise FormatError(REFUSAL)
    if not all(isinstance(bound, float) for bound in (*lower, *upper)):
        raise FormatError(REFUSAL)
    low, high = np.array(lower, dtype=np.float64), np.array(upper, dtype=np.float64)
    if not np.all(low <= high):
        raise FormatError(REFUSAL)
    return Part(None, low, high, group, np.array(places, dtype=np.intp), is_own), is_kept
