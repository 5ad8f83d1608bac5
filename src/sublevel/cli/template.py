"""Arguments of an external program with places for the variables: `{name}`, `{0}`, `{x0}`, or `{}` for all of them.

The places are filled argument by argument, and the result is a list: no shell ever sees it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

PLACE = re.compile(r"\{\{(?P<literal>[^{}]*)\}\}|\{(?P<name>[^{}]*)\}")
"""`{{word}}`, which stands for the text `{word}`, or `{word}`."""
ALL = "{}"


def variable_names(d: int, names: Sequence[str] | None = None) -> dict[str, int]:
    """What each of d variables may be called in a template."""
    known = {f"x{i}": i for i in range(d)} | {str(i): i for i in range(d)}
    return known | {name: i for i, name in enumerate(names or ())}


def used_variables(argv: Sequence[str], d: int, names: Sequence[str] | None = None) -> set[int] | None:
    """The variables that a template uses, None if it has no places. A ValueError says what is wrong with it.

    >>> used_variables(["./sim", "--rate={0}", "{x1}"], 3)
    {0, 1}
    >>> used_variables(["awk", "{print $1}"], 3)
    """
    known, used = variable_names(d, names), set[int]()
    if any(match["name"] in known for match in PLACE.finditer(argv[0])):
        raise ValueError(f"the program itself cannot be chosen by a variable, got {argv[0]!r}.")
    for word in argv[1:]:
        if word == ALL:
            used.update(range(d))
            continue
        for name in _places(word, known):
            if name not in known:
                raise ValueError(_unknown(name, d, names))
            used.add(known[name])
    return used or None


def fill_arguments(argv: Sequence[str], values: Sequence[float], names: Sequence[str] | None = None) -> list[str]:
    """The arguments with values (d,) in their places, each in the shortest form that gives the same bits again.

    >>> fill_arguments(["./sim", "--rate={rate}", "{1}", "{{rate}}"], [0.1, -2.0], ["rate", "depth"])
    ['./sim', '--rate=0.1', '-2.0', '{rate}']
    >>> fill_arguments(["./sim", "{}"], [0.1, -2.0])
    ['./sim', '0.1', '-2.0']
    """
    known, filled = variable_names(len(values), names), [argv[0]]
    for word in argv[1:]:
        if word == ALL:
            filled += map(repr, values)
        else:
            filled.append(PLACE.sub(lambda match: _text(match, known, values), word))
    return filled


def _places(word: str, known: Mapping[str, int]) -> Iterator[str]:
    """The names in the places of an argument. Braces around anything else, such as awk's {print $1}, are text."""
    for match in PLACE.finditer(word):
        name = match["name"]
        if name is not None and _is_place(name, known):
            yield name


def _is_place(name: str, known: Mapping[str, int]) -> bool:
    return name in known or re.fullmatch(r"\w*", name) is not None


def _text(match: re.Match[str], known: Mapping[str, int], values: Sequence[float]) -> str:
    """What stands for a place."""
    if match["name"] is not None:
        return repr(values[known[match["name"]]]) if match["name"] in known else match[0]
    return "{" + match["literal"] + "}" if _is_place(match["literal"], known) else match[0]


def _unknown(name: str, d: int, names: Sequence[str] | None) -> str:
    if not name:
        return "{} stands for all values and must be an argument of its own; write {{}} for the text {}."
    choices = ", ".join(f"{{{known}}}" for known in names) if names else f"{{0}} to {{{d - 1}}}" if d > 1 else "{0}"
    hint = "" if names else " Give --names to use names."
    return f"there is no variable for {{{name}}}; the places are {choices}.{hint} Write {{{{{name}}}}} for the text {{{name}}}."
