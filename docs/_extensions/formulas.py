"""Formulas as MathML, for the site and for the printed report."""

from __future__ import annotations

from latex2mathml.converter import convert

RELATIONS = {
    "<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>",
    "<mi>:</mi>": '<mo lspace="0.28em" rspace="0.28em">:</mo>',
}
"""What `latex2mathml` takes for names, which have no space around them."""


def to_mathml(latex: str, *, displayed: bool = False) -> str:
    """MathML of a formula, within a line or on a line of its own."""
    markup = convert(latex, display="block" if displayed else "inline")
    for name, relation in RELATIONS.items():
        markup = markup.replace(name, relation)
    return markup
