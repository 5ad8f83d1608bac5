# pyright: reportUnknownMemberType=false
"""The picture of `dimension`."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.figure import Figure

from sublevel.experiments.draw import INK, SIZE_COLOURS
from sublevel.studies.common import Data
from sublevel.studies.dimension import FITTED_FROM, NAMES, Growth, growths, theory_iterations
from sublevel.studies.figures.drawing import DASHES, blank, label, logarithmic, ticks, tidy

COLOURS = {1: SIZE_COLOURS[0], 2: SIZE_COLOURS[3], 4: SIZE_COLOURS[4]}


def figure(data: Data) -> Figure:
    """Iterations and evaluations against d, and how much of a step is signal."""
    drawing = blank((12.6, 4.4))
    left, middle, right = drawing.subplots(1, 3)
    for growth in growths(data):
        colour = COLOURS[growth.power]
        _line(left, growth, growth.iterations, growth.exponent(evaluations=False), colour)
        evaluations = [n * sample for n, sample in zip(growth.sizes, growth.iterations, strict=True)]
        _line(middle, growth, evaluations, growth.exponent(evaluations=True), colour)
        right.plot(growth.dimensions, growth.share, "o-", color=colour, lw=1.5, ms=4.5)
        label(right, growth.dimensions[-1], growth.share[-1], f"n = {NAMES[growth.power]}", colour)
    left.axhline(theory_iterations(), color=INK, lw=1.2, ls=DASHES)
    label(left, 2, theory_iterations(), "exact gradient", INK, xytext=(0, -8))
    for axis in (left, middle, right):
        logarithmic(axis)
        ticks(axis.xaxis, growths(data)[0].dimensions)
        axis.set_xlim(1.8, growths(data)[0].dimensions[-1] * 2.6)
    tidy(left, "Iterations to learn C: Cond(CA) from 10⁶ to 10", x="dimension $d$")
    tidy(middle, "Evaluations for it", x="dimension $d$")
    tidy(right, "Why: the share of a step that is signal", x="dimension $d$", y="$-\\mathrm{tr}(Z)/(d\\,\\sigma_1(Z))$ where $C = A^{-1}$")
    return drawing


def _line(axis: Any, growth: Growth, samples: list[Any], exponent: Any, colour: str) -> None:
    centre = np.array([np.exp(np.mean(np.log(sample))) for sample in samples])
    for d, sample in zip(growth.dimensions, samples, strict=True):
        axis.plot(np.full(sample.size, d), sample, ".", color=colour, ms=3, alpha=0.35, mew=0)
    axis.plot(growth.dimensions, centre, "o", color=colour, ms=4.5)
    fitted = growth.dimensions >= min(FITTED_FROM, growth.dimensions[-2])
    x = growth.dimensions[fitted]
    middle = np.exp(np.mean(np.log(centre[fitted]) - exponent.value * np.log(x)))
    axis.plot(x, middle * x**exponent.value, color=colour, lw=1.6)
    axis.plot(growth.dimensions, centre, color=colour, lw=0.8, alpha=0.5)
    half = (exponent.high - exponent.low) / 2
    label(axis, x[-1], centre[-1], f"n = {NAMES[growth.power]}\n∝ d^{{{exponent.value:.2f}±{half:.2f}}}".replace("{", "").replace("}", ""), colour)
