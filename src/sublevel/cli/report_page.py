"""A report on a stored run: one self-contained HTML file without scripts."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from html import escape

import numpy as np

from sublevel import plots
from sublevel.cli.common import describe_objective, printable
from sublevel.cli.result_output import search_nfev, user_deviations
from sublevel.hessian.report import MEANING, parameter_rows
from sublevel.plots.run import panel_images
from sublevel.plots.style import HTML_STYLE
from sublevel.run import termination
from sublevel.run.result import Result
from sublevel.store.constraint_facts import stored_constraints
from sublevel.store.load import StoredRun
from sublevel.summaries import listed, short_array

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""No scripts and no external resources."""
LARGEST_MATRIX = 60
"""Number of variables up to which correlations are drawn."""
MOST_ROWS = 200
"""Most rows of a table; longer tables show the first and the last rows."""
OMITTED = ("…", "", "", "")
PAGE_STYLE = """
.panels { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(100%, 22rem), 1fr)); gap: 1.2rem 1.8rem; }
.panels figure { margin: 0; }
figure img { width: auto; max-width: 100%; height: auto; margin: 0; }
figcaption { margin: .3rem 0 0; }
td { overflow-wrap: anywhere; }
#facts { width: auto; }
#facts td:first-child, #variables td { white-space: nowrap; }
#facts td:first-child { color: #6b727b; }
@media (max-width: 32rem) {
  body { margin: 1rem auto; padding: 0 .8rem; }
  th, td { padding: .35rem .45rem; }
  #variables { font-size: .68rem; }
  #variables th, #variables td { padding: .35rem .2rem; }
  #variables td:first-child { white-space: normal; overflow-wrap: break-word; }
}
@media print {
  body { max-width: none; margin: 0; padding: 0; font-size: 10pt; }
  .panels { grid-template-columns: 1fr 1fr; gap: .6rem 1rem; }
  .scroll { overflow: visible; }
  figure, tr, li { break-inside: avoid; }
  h2 { break-after: avoid; }
}
"""
"""Additions to the common style: panels side by side where they fit, tables that scroll, and a print layout."""
SEARCH_SPREAD = "The standard deviations of the search shrink as it converges; they are not error bars."
ERROR_BARS_HOW = (
    "<code>--error-bars</code> of <code>sublevel resume</code> or <code>sublevel.curvature</code> computes error bars."
)
KEPT = "satisfied"
"""In place of a value that is not stored: of a constraint that every evaluated point satisfies."""
MULTIPLIERS = (
    "The absolute value of a Lagrange multiplier is the rate at which f changes with the bound; it is 0 for a "
    "constraint that is not active."
)
CAPTIONS = {
    "values": "Best value of f so far; the thin line is the best value of each generation. With constraints, only "
    "feasible points count, and the largest violation at the best point is on the right.",
    "mean": "Mean of the search distribution.",
    "axes": "Standard deviations along the principal axes of the search distribution, their geometric mean σ, and the "
    "ratio of the longest to the shortest.",
    "deviations": "Standard deviations of the variables in the search distribution.",
    "discrete": "Probability of the most probable value of each integer and choice.",
    "model": "Agreement of the model with the order of the last evaluations (Kendall's τ), and the share of the points "
    "of each generation that were evaluated.",
    "correlations": "Correlations of the variables in the search distribution of the best run, which adapts to the "
    "shape of the valley.",
}


def report_page(run: StoredRun) -> str:
    """The page as HTML."""
    name = escape(printable(run.path.name))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{name}</title><style>{HTML_STYLE}{PAGE_STYLE}</style>"
    )
    state = termination.message(run.result.reasons) if run.result.reasons else "The run has not ended."
    body = [
        f"<h1>{name}</h1>",
        f'<p class="lead">{escape(state)}</p>',
        *_facts(run),
        *_findings(run),
        *_pictures(run),
        *_variables(run),
        *_error_bars(run),
        *_constraints(run),
        *_restarts(run),
    ]
    return "\n".join(["<!doctype html>", f'<html lang="en"><head>{head}</head><body>', *body, "</body></html>\n"])


def _facts(run: StoredRun) -> Iterable[str]:
    settings, result = run.settings, run.result
    rows = {
        "objective": describe_objective(settings),
        "method": printable(settings.method or settings.parts),
        **({"value": result.fun_text()} if settings.noise else {"best value": repr(result.fun)}),
        **({"largest violation": f"{result.maxcv:.6g}"} if "maxcv" in result else {}),
        "evaluations": f"{search_nfev(result)} in {result.nit} generations",
        **_surrogate(result),
        "failed evaluations": str(int(np.count_nonzero(np.isnan(run.values)))),
        "restarts": str(result.restarts),
        "points per generation": str(settings.popsize),
        "sublevel": printable(settings.version),
    }
    yield from _table("facts", ["", ""], rows.items())


def _surrogate(result: Result) -> dict[str, str]:
    """Facts about the model of a run with a surrogate."""
    if "surrogate" not in result:
        return {}
    model = result.surrogate
    return {
        "saved by the model": f"{model.saved} points of the last run were not evaluated",
        "agreement of the model": f"{model.agreement:.3f} with the order of the last evaluations (Kendall's τ)",
        "minimum of the model": short_array(model.x),
    }


def _pictures(run: StoredRun) -> Iterable[str]:
    if not len(run.result.history):
        return
    history = run.result.history
    panels = [_figure(CAPTIONS[name], image) for name, image in panel_images(history).items()]
    yield f'<h2>Progress of the run</h2><div class="panels">{"".join(panels)}</div>'
    theta = history.theta_of_best
    if 1 < len(history.free) <= LARGEST_MATRIX and theta.continuous:
        plots.correlation(history, stream := io.BytesIO(), file_format="svg")
        yield f"<h2>Correlations</h2>{_figure(CAPTIONS['correlations'], stream.getvalue())}"


def _figure(caption: str, image: bytes) -> str:
    """A figure as an SVG image, in which browsers run no scripts."""
    data, text = base64.b64encode(image).decode(), escape(caption)
    image_tag = f'<img alt="{text}" src="data:image/svg+xml;base64,{data}">'
    return f"<figure>{image_tag}<figcaption>{text}</figcaption></figure>"


def _findings(run: StoredRun) -> Iterable[str]:
    if run.result.diagnosis:
        items = "".join(f"<li>{escape(str(finding))}</li>" for finding in run.result.diagnosis)
        yield f'<h2>Findings</h2><ul id="findings">{items}</ul>'


def _variables(run: StoredRun) -> Iterable[str]:
    result, widths, labels = run.result, user_deviations(run.result), run.result.history.labels
    is_discrete = labels.discrete(result.x.size)

    def row(i: int) -> tuple[str, ...]:
        best = labels.text(i, result.x[i]) if is_discrete[i] else repr(float(result.x[i]))
        texts = best, labels.text(i, result.mean[i]), labels.spread(i, widths, result.distribution)
        return printable(labels.name(i)), *map(printable, texts)

    rows = [OMITTED if i is None else row(i) for i in listed(result.x.size, MOST_ROWS)]
    rows += [(printable(name), printable(text), "", "constant") for name, text in labels.constants().items()]
    yield "<h2>Variables</h2>"
    yield from _table("variables", ["", "best point", "mean of the search", "standard deviation of the search"], rows)
    yield f"<p>{SEARCH_SPREAD}{'' if result.curvature is not None else f' {ERROR_BARS_HOW}'}</p>"
    if result.x.size > MOST_ROWS:
        yield f"<p>{result.x.size} variables; <code>sublevel export</code> writes all of them.</p>"


def _error_bars(run: StoredRun) -> Iterable[str]:
    found = run.result.curvature
    if found is None:
        return
    header, *rows = [tuple(map(printable, row)) for row in parameter_rows(found)]
    yield "<h2>Error bars</h2>"
    yield from _table("error-bars", list(header), rows)
    yield f"<p>{escape(MEANING[found.kind])}; {found.nfev} evaluations.</p>"
    if found.problems:
        items = "".join(f"<li>{escape(printable(str(problem)))}</li>" for problem in found.problems)
        yield f'<ul id="error-bar-problems">{items}</ul>'


def _constraints(run: StoredRun) -> Iterable[str]:
    facts, result = run.settings.constraints, run.result
    if facts is None:
        return
    components = stored_constraints(facts).components()

    def row(i: int) -> tuple[str, ...]:
        one = components[i]
        values = [result.constr, result.multipliers or []]
        numbers = [float(group[one.group][one.place]) if group else np.nan for group in values]
        texts = ["" if np.isnan(number) else f"{number:.8g}" for number in numbers]
        return printable(one.label), f"{one.lower:.6g}", texts[0] or KEPT, f"{one.upper:.6g}", texts[1]

    rows = [("…",) + ("",) * 4 if i is None else row(i) for i in listed(len(components), MOST_ROWS)]
    yield "<h2>Constraints</h2>"
    header = ["", "lower bound", "value at the best point", "upper bound", "multiplier"]
    yield from _table("constraints", header, rows)
    if result.multipliers is not None:
        yield f"<p>{MULTIPLIERS}</p>"


def _restarts(run: StoredRun) -> Iterable[str]:
    runs = run.result.history.runs
    if len(runs) > 1:

        def row(i: int) -> tuple[str, ...]:
            reason = termination.message(runs[i].reasons) if runs[i].reasons else ""
            return str(i), str(runs[i].popsize), f"{runs[i].fun:.8g}", reason

        rows = [OMITTED if i is None else row(i) for i in listed(len(runs), MOST_ROWS)]
        yield "<h2>Runs</h2>"
        yield from _table("runs", ["run", "points per generation", "best value", "reason for stopping"], rows)


def _table(name: str, header: list[str], rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    yield f'<div class="scroll"><table id="{name}">'
    if any(header):
        yield "<tr>" + "".join(f"<th>{escape(text)}</th>" for text in header) + "</tr>"
    yield from ("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    yield "</table></div>"
