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
from sublevel.paper.figures.compute import CAP, DEGENERATE, PATIENCE
from sublevel.paper.figures.config import CODE, TARGET
from sublevel.paper.figures.results import Result, Results
from sublevel.paper.figures.statements import Statement, failure_count
from sublevel.paper.figures.table import verdict_line
from sublevel.plots.style import HTML_STYLE
from sublevel.run.progress import duration

TITLE = "Akimoto 2012, reproduced"
CAPTIONS = {
    1: "Mean and standard deviation of Cond(CᵗA) for c_C = 0.1, 0.5, 1.0, and of the expected objective for c_C = "
    "0.1. Dashed: the deterministic algorithm, eq:cond-sp with α = c_C/2. Curves are cut where the first trial "
    "reaches 10⁻¹⁰; the dot is the mean end. Dotted: failed trials, up to eight of each setting.",
    2: "Mean and standard deviation of Cond(CᵗA) for c_C = 0.1 from m⁰ = (0, …, 0) and from m⁰ = (10, …, 10). In "
    "theory there is no difference (dashed).",
    3: (
        "The paper's algorithm and rank-µ CMA-ES: Cond(CᵗA) above, the expected objective below; n = d on the left, n "
        "= d² on the right."
    ),
}
ENDINGS = {
    "degenerate": (
        f"Cond(CA) grew beyond {DEGENERATE:.0e}, so that C is numerically singular in the frame in which f is a sphere"
    ),
    "slow": f"{CAP} iterations were reached",
    "flat": f"all values were equal for {PATIENCE} consecutive iterations",
    "failed": f"no value was finite for {PATIENCE} consecutive iterations",
    "no_selection": f"all weights were 0 for {PATIENCE} consecutive iterations",
    "refused": f"the step exceeded the floating-point range for {PATIENCE} consecutive iterations",
}


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
        f"<p><strong>{escape(verdict_line(rows))}</strong></p>",
        *_statements(rows),
        *(_figure(number, path) for number, path in sorted(pictures.items())),
        *_failures([result for result in results.values() if result.failed]),
        *_settings(results.values()),
        *_facts(facts),
    ]
    head = (
        f'<meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width"><title>{TITLE}</title><style>{HTML_STYLE}</style>'
    )
    return "\n".join(["<!doctype html>", f'<html lang="en"><head>{head}</head><body>', *body, "</body></html>\n"])


def _rich(text: str) -> str:
    """Text as HTML, with subscripts and superscripts."""
    html = escape(text)
    for plain, rich in (
        ("c_C", "c<sub>C</sub>"),
        ("λ_min", "λ<sub>min</sub>"),
        ("λ_max", "λ<sub>max</sub>"),
        ("d^1.5", "d<sup>3/2</sup>"),
    ):
        html = html.replace(plain, rich)
    return html


def _statements(rows: Sequence[Statement]) -> Iterable[str]:
    yield '<h2>Statement by statement</h2><div class="scroll"><table id="statements">'
    widths = "".join(f'<col style="width: {percent}%">' for percent in (6, 31, 31, 22, 10))
    yield f"<colgroup>{widths}</colgroup>"
    yield (
        "<tr><th>figure</th><th>statement in the paper</th><th>measured here</th><th>counts as "
        "found</th><th>verdict</th></tr>"
    )
    for row in rows:
        cells = "".join(f"<td>{_rich(text)}</td>" for text in (str(row.figure), row.paper, row.measured, row.accepted))
        yield f'<tr class="{"yes" if row.found else "no"}">{cells}<td class="verdict">{row.verdict}</td></tr>'
    yield "</table></div>"


def _figure(number: int, path: Path) -> str:
    data = base64.b64encode(path.read_bytes()).decode()
    image = f'<img alt="Figure {number}" src="data:image/svg+xml;base64,{data}">'
    return f"<h2>Figure {number}</h2><figure>{image}<figcaption>{_rich(CAPTIONS[number])}</figcaption></figure>"


def _failures(failing: Sequence[Result]) -> Iterable[str]:
    """The settings that the paper omits."""
    yield "<h2>Trials that failed</h2>"
    if not failing:
        yield "<p>None: every trial of every setting reached the target.</p>"
        return
    if degenerate := [result for result in failing if "degenerate" in result.failures]:
        yield f"<p>{_rich(_explanation(degenerate))}</p>"
    yield _header(
        "failures",
        "setting",
        "failed",
        "after iterations",
        "expected objective",
        "part of m'Am in it",
        "λ_min/λ_max of C",
    )
    for result in failing:
        lost = {
            name: result.arrays[name][~result.reached]
            for name in result.arrays
            if name.startswith(("final_", "iterations"))
        }
        median = {name: float(np.median(values)) for name, values in lost.items()}
        yield _row(
            _name(result),
            failure_count(result),
            f"{median['iterations']:.0f}",
            f"{median['final_expected']:.1e}",
            f"{100 * median['final_mean_share']:.3f} %",
            f"{median['final_eigenvalue_ratio']:.0e}",
        )
    kinds = sorted({kind for result in failing for kind in result.failures})
    meanings = " ".join(f"<em>{_rich(kind)}</em>: {_rich(ENDINGS[kind])}." for kind in kinds)
    yield (
        f"</table></div><p>{meanings} Numbers are medians over the failed trials. Failed trials are not included in "
        f"averages.</p>"
    )


def _explanation(failing: Sequence[Result]) -> str:
    """Why trials fail, with the numbers of the failed ones."""
    share = min(float(np.min(result.arrays["final_mean_share"][~result.reached])) for result in failing)
    ratio = max(float(np.max(result.arrays["final_eigenvalue_ratio"][~result.reached])) for result in failing)
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
    made = cache.provenance(CODE)
    yield "<h2>How it was computed</h2>"
    yield (
        f"<p>Every setting above with seed {facts.seed}, each trial until m'Am + Tr(CA) ≤ {TARGET:g}, checked after "
        "every iteration. Cond(CᵗA) is recorded at every iteration up to 400 and then in steps of about t/200; the "
        "first time to a condition number is interpolated in log Cond. Averages are over the trials that reached the "
        "target.</p>"
    )
    yield (
        f"<p>{duration(facts.seconds)} with {facts.jobs} "
        f"processes{', with some data from an earlier run' if facts.reused else ''}. sublevel {made['version']} (code "
        f"{made['code']}), NumPy {made['numpy']}, Python {platform.python_version()}, "
        f"{escape(platform.platform())}.</p>"
    )
    yield (
        "<p>Beside this page: <code>summary.json</code>, the figures as PNG and SVG, and in <code>data/</code> one "
        "compressed NumPy file for each setting, with its configuration, seed and version inside.</p>"
    )
