"""Arguments of a program with placeholders for variables: `{name}`, `{0}`, `{x0}`, or `{}` for all; without a shell."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence

PLACEHOLDER = re.compile(r"\{\{(?P<literal>[^{}]*)\}\}|\{(?P<name>[^{}]*)\}")
"""`{{word}}`, which stands for the text `{word}`, or `{word}`."""
ALL = "{}"


def variable_names(d: int, names: Sequence[str] | None = None) -> dict[str, int]:
    """Index of each name that d variables can have in a template."""
    known = {f"x{i}": i for i in range(d)} | {str(i): i for i in range(d)}
    return known | {name: i for i, name in enumerate(names or ())}


def used_variables(argv: Sequence[str], d: int, names: Sequence[str] | None = None) -> set[int] | None:
    """Indices of the variables in a template; None if it has no placeholders. Raises ValueError if it is wrong.

    >>> used_variables(["./sim", "--rate={0}", "{x1}"], 3)
    {0, 1}
    >>> used_variables(["awk", "{print $1}"], 3)
    """
    known, used = variable_names(d, names), set[int]()
    if any(match["name"] in known for match in PLACEHOLDER.finditer(argv[0])):
        raise ValueError(f"the name of the program cannot contain a variable, got {argv[0]!r}.")
    for word in argv[1:]:
        if word == ALL:
            used.update(range(d))
            continue
        for name in _placeholders(word, known):
            if name not in known:
                raise ValueError(_unknown(name, d, names))
            used.add(known[name])
    return used or None


def fill_arguments(argv: Sequence[str], values: Sequence[object], names: Sequence[str] | None = None) -> list[str]:
    """The arguments with placeholders replaced by values (d,): floats as the shortest text that gives the same float.

    >>> fill_arguments(["./sim", "--rate={rate}", "{1}", "{{rate}}"], [0.1, -2.0], ["rate", "depth"])
    ['./sim', '--rate=0.1', '-2.0', '{rate}']
    >>> fill_arguments(["./sim", "{}"], [0.1, -2.0])
    ['./sim', '0.1', '-2.0']
    >>> fill_arguments(["./sim", "{depth}", "{kernel}", "{fast}"], [3, "rbf", True], ["depth", "kernel", "fast"])
    ['./sim', '3', 'rbf', 'true']
    """
    known, filled = variable_names(len(values), names), [argv[0]]
    for word in argv[1:]:
        if word == ALL:
            filled += map(argument_text, values)
        else:
            filled.append(PLACEHOLDER.sub(lambda match: _text(match, known, values), word))
    return filled


def argument_text(value: object) -> str:
    """A value as an argument of a program: texts as they are, true, false and null as in JSON, numbers as by `repr`."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return value if isinstance(value, str) else repr(value)


def _placeholders(word: str, known: Mapping[str, int]) -> Iterator[str]:
    """The names in placeholders of an argument. Other braces, as in awk's {print $1}, are text."""
    for match in PLACEHOLDER.finditer(word):
        name = match["name"]
        if name is not None and _is_placeholder(name, known):
            yield name


def _is_placeholder(name: str, known: Mapping[str, int]) -> bool:
    return name in known or re.fullmatch(r"\w*", name) is not None


def _text(match: re.Match[str], known: Mapping[str, int], values: Sequence[object]) -> str:
    """The replacement of a placeholder."""
    if match["name"] is not None:
        return argument_text(values[known[match["name"]]]) if match["name"] in known else match[0]
    return "{" + match["literal"] + "}" if _is_placeholder(match["literal"], known) else match[0]


def _unknown(name: str, d: int, names: Sequence[str] | None) -> str:
    if not name:
        return "{} inserts all values and must be a separate argument; write {{}} for the text {}."
    choices = ", ".join(f"{{{known}}}" for known in names) if names else f"{{0}} to {{{d - 1}}}" if d > 1 else "{0}"
    hint = "" if names else " Use --names to define names."
    return f"unknown placeholder {{{name}}}; available: {choices}.{hint} Write {{{{{name}}}}} for the text {{{name}}}."
