"""`report.html`: a self-contained page."""

from __future__ import annotations

import base64
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from sublevel.paper import cache
from sublevel.paper.figures.config import CODE, EXPERIMENT, figure_settings
from sublevel.paper.figures.results import Result, Results
from sublevel.paper.figures.statements import Statement, failure_count, verdict_line
from sublevel.plots.style import HTML_STYLE
from sublevel.run.progress import duration

TITLE = "Akimoto 2012, reproduced"
CAPTIONS = {
    1: "Mean and standard deviation of Cond(CᵗA) for c_C = 0.1, 0.5, 1.0, and of the expected objective for c_C = "
    "0.1. Dashed: the deterministic algorithm, eq:cond-sp with α = c_C/2. Curves are cut where the first trial "
    "reaches 10⁻¹⁰; the dot is the mean end. Dotted: failed trials, up to eight of each setting.{survivors}",
    2: "Mean and standard deviation of Cond(CᵗA) for c_C = 0.1 from m⁰ = (0, …, 0) and from m⁰ = (10, …, 10). In "
    "theory there is no difference (dashed).",
    3: "The paper's algorithm and rank-µ CMA-ES: Cond(CᵗA) above, the expected objective below; n = d on the left, "
    "n = d² on the right.",
}
WITHOUT_A_STEP = f"for {EXPERIMENT.patience} consecutive iterations"
ENDINGS = {
    "degenerate": f"Cond(CA) grew beyond {EXPERIMENT.degenerate:.0e}, so that C is numerically singular in the frame "
    "in which f is a sphere",
    "slow": f"{EXPERIMENT.cap} iterations were reached",
    "flat": f"all values were equal {WITHOUT_A_STEP}",
    "failed": f"no value was finite {WITHOUT_A_STEP}",
    "no_selection": f"all weights were 0 {WITHOUT_A_STEP}",
    "refused": f"the step exceeded the floating-point range {WITHOUT_A_STEP}",
}
INDICES = {"λ_min": "λ<sub>min</sub>", "λ_max": "λ<sub>max</sub>"}
MARKUP = {"c_C": "c<sub>C</sub>", "d^1.5": "d<sup>3/2</sup>", **INDICES}
"""Formulas in text and in HTML."""


@dataclass(frozen=True, slots=True)
class Facts:
    """How the data were computed."""

    seed: int
    jobs: int
    seconds: float
    reused: bool  # some data came from an earlier run, so that the time is not meaningful


def page(rows: Sequence[Statement], results: Results, pictures: Mapping[int, Path], facts: Facts) -> str:
    """The report as HTML."""
    body = [
        f"<h1>{TITLE}</h1>",
        '<p class="lead">Analysis of a Natural Gradient Algorithm on Monotonic Convex-Quadratic-Composite Functions '
        "(GECCO 2012): its figures recomputed, and its statements about them checked.</p>",
        f"<p><strong>{escape(verdict_line(rows, results))}</strong></p>",
        *_statements(rows),
        *(_figure(number, path, results) for number, path in sorted(pictures.items())),
        *_failures([result for result in results.values() if result.failed]),
        *_settings(results.values()),
        *_facts(facts),
    ]
    meta = '<meta charset="utf-8"><meta name="viewport" content="width=device-width">'
    head = f"<head>{meta}<title>{TITLE}</title><style>{HTML_STYLE}</style></head>"
    return "\n".join(["<!doctype html>", f'<html lang="en">{head}<body>', *body, "</body></html>\n"])


def _rich(text: str) -> str:
    """Text as HTML, with subscripts and superscripts."""
    html = escape(text)
    for plain, rich in MARKUP.items():
        html = html.replace(plain, rich)
    return html


def _statements(rows: Sequence[Statement]) -> Iterable[str]:
    columns = {"figure": 6, "statement in the paper": 31, "measured here": 31, "counts as found": 22, "verdict": 10}
    widths = "".join(f'<col style="width: {percent}%">' for percent in columns.values())
    yield '<h2>Statement by statement</h2><div class="scroll"><table id="statements">'
    yield f"<colgroup>{widths}</colgroup><tr>{''.join(f'<th>{name}</th>' for name in columns)}</tr>"
    for row in rows:
        cells = "".join(f"<td>{_rich(text)}</td>" for text in (str(row.figure), row.paper, row.measured, row.accepted))
        yield f'<tr class="{"yes" if row.found else "no"}">{cells}<td class="verdict">{row.verdict}</td></tr>'
    yield "</table></div>"


def caption(number: int, results: Results) -> str:
    """The caption of a figure: where some trials failed it says over how many the averages are, and what failing is."""
    failing = [result for result in results.values() if result.failed and result.setting in figure_settings(1)]
    if number != 1 or not failing:
        return CAPTIONS[number].replace("{survivors}", "")
    partly = [result for result in failing if result.failed < result.trials]
    counts = [
        f"{result.trials - result.failed} of {result.trials} trials at {_short_name(result)}" for result in partly
    ]
    over = f" Averages are over the trials that reached the target: {'; '.join(counts)}." if partly else ""
    none = [_short_name(result) for result in failing if result.failed == result.trials]
    empty = f" No trial reached it, so that there is no average, at {'; '.join(none)}." if none else ""
    kinds = sorted({kind for result in failing for kind in result.failures})
    meanings = "".join(f" A failed trial is {kind} if {ENDINGS[kind]}." for kind in kinds)
    return CAPTIONS[number].replace("{survivors}", over + empty + meanings)


def _short_name(result: Result) -> str:
    return f"n = {result.setting.n}, c_C = {result.setting.c_cov:g}"


def _figure(number: int, path: Path, results: Results) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img alt="Figure {number}" src="data:image/svg+xml;base64,{data}">'
    return f"<h2>Figure {number}</h2><figure>{image}<figcaption>{_rich(caption(number, results))}</figcaption></figure>"


def _failures(failing: Sequence[Result]) -> Iterable[str]:
    """The settings that the paper omits."""
    yield "<h2>Trials that failed</h2>"
    if not failing:
        yield "<p>None: every trial of every setting reached the target.</p>"
        return
    if degenerate := [result for result in failing if "degenerate" in result.failures]:
        yield f"<p>{_rich(_explanation(degenerate))}</p>"
    numbers = "after iterations", "expected objective", "part of m'Am in it", "λ_min/λ_max of C"
    yield _header("failures", "setting", "failed", *numbers)
    for result in failing:
        names = "iterations", "final_expected", "final_mean_share", "final_eigenvalue_ratio"
        time, expected, share, ratio = (float(np.median(result.arrays[name][~result.reached])) for name in names)
        medians = f"{time:.0f}", f"{expected:.1e}", f"{100 * share:.3f} %", f"{ratio:.0e}"
        yield _row(_name(result), failure_count(result), *medians)
    kinds = sorted({kind for result in failing for kind in result.failures})
    meanings = " ".join(f"<em>{_rich(kind)}</em>: {_rich(ENDINGS[kind])}." for kind in kinds)
    yield f"</table></div><p>{meanings} Numbers are medians over the failed trials, which are in no average.</p>"


def _explanation(failing: Sequence[Result]) -> str:
    """Why trials fail, with the numbers of the failed ones."""
    share = min(np.min(result.arrays["final_mean_share"][~result.reached]) for result in failing)
    ratio = max(np.max(result.arrays["final_eigenvalue_ratio"][~result.reached]) for result in failing)
    return (
        "The paper omits settings with a small sample and a large rate because of numerically unstable computation. "
        "What happens there is premature convergence: the noise of the estimate shrinks C in some direction faster "
        "than the mean can follow, and once C is narrow there the mean can no longer move there. When the trials "
        f"below were stopped, m'Am was at least {100 * share:.2f} % of the expected objective, Cond(CA) was growing "
        "exponentially, and the smallest eigenvalue of C, computed as in step 1 of the paper's algorithm, was at most "
        f"{ratio:.0e} of the largest, where rounding errors are 1e-16. "
        "This library keeps a root of C instead of C and could continue, but the expected objective no longer "
        "decreases."
    )


def _settings(results: Iterable[Result]) -> Iterable[str]:
    yield "<h2>All settings</h2>"
    yield _header("settings", "setting", "trials", "iterations", "final Cond(CA)", "iterations to Cond = 10")
    for result in results:
        yield _row(
            _name(result),
            f"{result.trials - result.failed} of {result.trials} reached the target",
            _plus_minus(result.mean("iterations"), result.std("iterations"), ".0f"),
            _plus_minus(result.mean("final_cond"), result.std("final_cond"), ".3f"),
            _plus_minus(result.time_to(10.0), np.nan, ".0f"),
        )
    yield "</table></div>"


def _header(name: str, first: str, second: str, *numbers: str) -> str:
    cells = "".join(f'<th class="number">{_rich(text)}</th>' for text in numbers)
    return f'<div class="scroll"><table id="{name}"><tr><th>{_rich(first)}</th><th>{_rich(second)}</th>{cells}</tr>'


def _row(first: str, second: str, *numbers: str) -> str:
    cells = "".join(f'<td class="number">{_rich(text)}</td>' for text in numbers)
    return f'<tr><td class="name">{_rich(first)}</td><td>{_rich(second)}</td>{cells}</tr>'


def _plus_minus(mean: float, std: float, spec: str) -> str:
    if not np.isfinite(mean):
        return "–"
    return format(mean, spec) + (f" ± {format(std, spec)}" if np.isfinite(std) else "")


def _name(result: Result) -> str:
    setting = result.setting
    rate = "" if setting.c_cov is None else f", c_C = {setting.c_cov:g}"
    start = "0" if setting.start == 0 else f"({setting.start:g}, …, {setting.start:g})"
    return f"{'NGD' if setting.method == 'ngd' else 'rank-µ'}, n = {setting.n}{rate}, m⁰ = {start}"


def _facts(facts: Facts) -> Iterable[str]:
    made, reused = cache.provenance(CODE), ", with some data from an earlier run" if facts.reused else ""
    yield "<h2>How it was computed</h2>"
    yield (
        f"<p>Every setting above with seed {facts.seed}, each trial until m'Am + Tr(CA) ≤ {EXPERIMENT.target:g}, "
        "checked after every iteration. Cond(CᵗA) is recorded at every iteration up to 400 and then in steps of about "
        "t/200; the first time to a condition number is interpolated in log Cond. Averages are over the trials that "
        "reached the target.</p>"
    )
    yield (
        f"<p>{duration(facts.seconds)} with {facts.jobs} processes{reused}. sublevel {made['version']} "
        f"(code {made['code']}), NumPy {made['numpy']}, Python {platform.python_version()}, "
        f"{escape(platform.platform())}.</p>"
    )
    yield (
        "<p>Beside this page: <code>summary.json</code>, the figures as PNG and SVG, and in <code>data/</code> one "
        "compressed NumPy file for each setting, with its configuration, seed and version inside.</p>"
    )
