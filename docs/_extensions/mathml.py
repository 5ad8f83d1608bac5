"""Formulas as MathML, which browsers draw by themselves, with a font that is part of the site: no script is needed.

Without a font that has the measures of formulas, browsers place indices and exponents badly, and many systems have
none. The package `ziamath` contains STIX Two Math, of which the build takes the characters below.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

from docutils import nodes
from fontTools import subset
from formulas import to_mathml
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

FONT = "fonts/STIXTwoMath-Regular.ttf"
CHARACTERS = (
    *(range(0x20, 0x7F), range(0xA0, 0xC0), (0xD7, 0xF7), range(0x2C6, 0x2DD)),  # Latin, signs, accents
    *(range(0x391, 0x3F7), range(0x1D434, 0x1D468), (0x210E,), range(0x1D6E2, 0x1D71C)),  # Greek, italics
    *(range(0x2010, 0x2045), range(0x2190, 0x219A), (0x21A6, 0x2113, 0x211D)),  # dashes, arrows, ℓ, ℝ
    *(range(0x2200, 0x2288), (0x22A4, 0x22A5, 0x22C5), range(0x22EE, 0x22F2)),  # operators, dots
    *(range(0x2308, 0x230C), range(0x239B, 0x23AF), range(0x27E8, 0x27EC)),  # brackets and their parts
)


def inline_formula(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a line."""
    translator.body.append(to_mathml(node.astext()))
    raise nodes.SkipNode


def displayed_formula(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own."""
    translator.body.append(f'<div class="formula">{to_mathml(node.astext(), displayed=True)}</div>')
    raise nodes.SkipNode


def write_font(app: Sphinx, failure: Exception | None) -> None:
    """Write the font of formulas to the static files, with its copyright notice."""
    file = Path(app.outdir, "_static", "math.woff")
    package = find_spec("ziamath")
    if failure or file.exists() or app.builder.format != "html" or package is None or package.origin is None:
        return
    options = subset.Options(flavor="woff", layout_features=["ssty", "dtls"], name_IDs=["*"])
    font = subset.load_font(str(Path(package.origin).parent / FONT), options)
    subsetter = subset.Subsetter(options)
    subsetter.populate(unicodes=[code for codes in CHARACTERS for code in codes])
    subsetter.subset(font)
    subset.save_font(font, str(file), options)


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the renderer."""
    app.add_html_math_renderer("mathml", (inline_formula, None), (displayed_formula, None))
    app.connect("build-finished", write_font)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
