"""Text summaries of a curvature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from textwrap import TextWrapper

import numpy as np

from sublevel.engine.arrays import Array
from sublevel.hessian.estimate import Estimate
from sublevel.run.diagnosis import Finding
from sublevel.summaries import Summary, aligned, counted, listed, number_text

WIDTH = 110
"""Line width in characters."""
MATRIX = 8
"""Number of variables up to which correlations are shown as a matrix; above it, the strongest pairs are listed."""
MEANING = {
    None: "± marks a rise of f by 1/2 with the other variables re-optimised",
    "nll": "f is a negative log-likelihood: ± is one standard deviation",
    "least_squares": "f is a sum of squares: ± is one standard deviation, with the residual variance estimated",
}


def summary(found: Estimate) -> str:
    """One page of text: parameters, spectrum, correlations and warnings."""
    warnings = ["warnings", *problem_lines(found.problems)] if found.problems else ["no warnings"]
    parts = [_head(found), aligned(parameter_rows(found)), _spectrum(found), _correlations(found), warnings]
    return "\n\n".join("\n".join(part) for part in parts if part)


def deviations(found: Estimate) -> Array:
    """The numbers after ± (d,): standard deviations of the parameters if f has a kind, else those of `hess_inv`."""
    with np.errstate(invalid="ignore"):
        return np.sqrt(np.diagonal(found.covariance if found.kind else found.hess_inv))


def main_parts(found: Estimate, direction: int, most: int = 3) -> str:
    """The largest components of a principal direction."""
    parts = found.directions[:, direction]
    order = [i for i in np.argsort(-np.abs(parts), kind="stable")[:most] if abs(parts[i]) > 0.1]
    rest = " …" if np.count_nonzero(np.abs(parts) > 0.1) > most else ""
    return " ".join(f"{parts[i]:+.2f}·{found.names[i]}" for i in order) + rest


def strongest_pairs(found: Estimate) -> list[tuple[int, int]]:
    """Pairs of free variables, the most correlated first."""
    matrix = np.abs(np.nan_to_num(found.correlation))
    i, j = np.triu_indices(len(matrix), 1)
    order = np.argsort(-matrix[i, j], kind="stable")
    return [(int(i[k]), int(j[k])) for k in order if found.free[i[k]] and found.free[j[k]] and matrix[i[k], j[k]] > 0]


def _head(found: Estimate) -> list[str]:
    rise, scatter = number_text(found.delta_f, ".3g"), number_text(found.noise, ".2g")
    return [
        f"minimum  f = {found.fun:.10g}",
        f"region   f rises by {rise}; residual scatter {scatter}; {found.nfev} evaluations",
        f"errors   {MEANING[found.kind]}",
        *([f"held     {held_text(found.held)}"] if found.held else []),
    ]


def held_text(held: Mapping[str, str]) -> str:
    """The discrete variables, which are held, in one line."""
    names = list(held)
    parts = ["…" if i is None else f"{names[i]} = {held[names[i]]}" for i in listed(len(names))]
    return f"{', '.join(parts)} (discrete)"


def short_summary(found: Estimate) -> Summary:
    """The minimum and its errors."""
    what = f"{counted(found.free.size, 'variable')}, {int(np.count_nonzero(found.free))} free, {found.nfev} evaluations"
    facts = {"fun": f"{found.fun:.10g}", "errors": MEANING[found.kind], "success": str(found.success)}
    facts |= {"held": held_text(found.held)} if found.held else {}
    return Summary(f"Curvature: {what}", facts, parameter_rows(found), [str(problem) for problem in found.problems])


def parameter_rows(found: Estimate) -> list[list[str]]:
    """A header and a row for each variable: name, value, error, interval; long tables are abbreviated."""
    errors = deviations(found)
    intervals = _interval_texts(found) if found.kind else [""] * found.free.size
    rows = [["variable", "value", "± error", "95 % interval" if found.kind else ""]]
    for i in listed(found.free.size):
        if i is None:
            rows.append(["…", "", "", ""])
        elif not found.free[i]:
            rows.append([found.names[i], found.held.get(found.names[i], f"{found.x[i]:.7g}"), "held", ""])
        else:
            rows.append([found.names[i], f"{found.x[i]:.7g}", number_text(errors[i], ".3g"), intervals[i]])
    return rows


def _interval_texts(found: Estimate) -> list[str]:
    """The 95 % intervals; ends that are bounds are marked."""
    marks = np.where(found.ends_at_bound(), " (bound)", "")
    ends = [
        [number_text(end, ".6g") + mark for end, mark in zip(*both, strict=True)]
        for both in zip(found.wald_intervals(), marks, strict=True)
    ]
    return [f"[{low}, {high}]" for low, high in ends]


def _spectrum(found: Estimate) -> list[str]:
    rows = [["direction", "curvature", "± error", "mainly"]]
    last = found.curvatures.size - 1
    for i in listed(found.curvatures.size):
        if i is None:
            rows.append(["…", "", "", ""])
        else:
            name = f"{i + 1}" + (last > 0) * (" (stiff)" if i == 0 else " (sloppy)" if i == last else "")
            curvature = number_text(found.curvatures[i], ".5g"), number_text(found.curvatures_error[i], ".2g")
            rows.append([name, *curvature, main_parts(found, i)])
    return aligned(rows) if last >= 0 else []


def _correlations(found: Estimate) -> list[str]:
    free = np.flatnonzero(found.free)
    if free.size < 2:
        return []
    if free.size > MATRIX:
        pairs, names = strongest_pairs(found)[:6], found.names
        return [
            "strongest correlations",
            *(f"  {names[i]} {names[j]} {found.correlation[i, j]:+.3f}" for i, j in pairs),
        ]
    matrix = found.correlation[np.ix_(free, free)]
    rows = [["correlation", *(found.names[i] for i in free)]]
    rows += [
        [found.names[i], *(number_text(number, "+.3f") for number in row)] for i, row in zip(free, matrix, strict=True)
    ]
    return aligned(rows)


def problem_lines(problems: Iterable[Finding]) -> list[str]:
    """Findings as indented and wrapped lines."""
    wrapper = TextWrapper(WIDTH, initial_indent="  ", subsequent_indent="    ")
    return [line for problem in problems for line in wrapper.wrap(str(problem))]
