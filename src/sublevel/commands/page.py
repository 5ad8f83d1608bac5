"""A page about a stored run: one HTML file that needs nothing but itself, and in which nothing can run."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterable
from html import escape
from typing import Any

import numpy as np

from sublevel import plots, stop
from sublevel.commands.common import deviations, objective_words, printable
from sublevel.experiments.page import STYLE
from sublevel.families import Bernoulli
from sublevel.stored import StoredRun

POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
"""No scripts, nothing from elsewhere."""
LARGEST_MATRIX = 60
"""Variables up to which the correlations are drawn."""


def page(run: StoredRun) -> str:
    """The page as HTML."""
    name = escape(printable(run.path.name))
    head = (
        f'<meta charset="utf-8"><meta http-equiv="Content-Security-Policy" content="{POLICY}">'
        f'<meta name="viewport" content="width=device-width"><title>{name}</title><style>{STYLE}</style>'
    )
    body = [
        f"<h1>{name}</h1>",
        f'<p class="lead">{escape(_state(run))}</p>',
        *_facts(run),
        *_pictures(run),
        *_findings(run),
        *_variables(run),
        *_restarts(run),
    ]
    return "\n".join(["<!doctype html>", f'<html lang="en"><head>{head}</head><body>', *body, "</body></html>\n"])


def _state(run: StoredRun) -> str:
    return stop.message(run.result.reasons) if run.result.reasons else "This run has not come to its end."


def _facts(run: StoredRun) -> Iterable[str]:
    settings, result = run.settings, run.result
    rows = {
        "minimised": objective_words(settings),
        "method": printable(settings.method or settings.parts),
        "best value": repr(result.fun),
        "evaluations": f"{result.nfev} in {result.nit} generations",
        "failed evaluations": str(int(np.count_nonzero(np.isnan(run.values)))),
        "restarts": str(result.restarts),
        "points per generation": str(settings.popsize),
        "sublevel": printable(settings.version),
    }
    yield from _table("facts", ["", ""], rows.items())


def _pictures(run: StoredRun) -> Iterable[str]:
    if not len(run.result.history):
        return
    caption = "Values, step size and axis ratio; the mean; the principal axes; the standard deviations. All against evaluations."
    yield _figure("How the run went", plots.convergence, run.result.history, caption)
    theta = run.result.history.theta_of_best
    if 1 < theta.dimension <= LARGEST_MATRIX and not isinstance(theta, Bernoulli):
        caption = "Correlations of the variables in the search distribution of the best run, which takes the shape of the valley."
        yield _figure("How the variables hang together", plots.correlation, run.result.history, caption)


def _figure(title: str, draw: Any, history: Any, caption: str) -> str:
    stream = io.BytesIO()
    draw(history, stream)
    data = base64.b64encode(stream.getvalue()).decode()
    image = f'<img alt="{escape(title)}" src="data:image/png;base64,{data}">'
    return f"<h2>{escape(title)}</h2><figure>{image}<figcaption>{escape(caption)}</figcaption></figure>"


def _findings(run: StoredRun) -> Iterable[str]:
    if run.result.diagnosis:
        items = "".join(f"<li>{escape(str(finding))}</li>" for finding in run.result.diagnosis)
        yield f'<h2>What stands out</h2><ul id="findings">{items}</ul>'


def _variables(run: StoredRun) -> Iterable[str]:
    columns = zip(run.result.x.tolist(), run.result.mean.tolist(), deviations(run.result).tolist(), strict=True)
    name = run.result.history.name
    rows = [(name(i), repr(best), repr(mean), f"{deviation:.3g}") for i, (best, mean, deviation) in enumerate(columns)]
    yield "<h2>Variables</h2>"
    yield from _table("variables", ["", "best point", "mean of the search", "standard deviation"], rows)


def _restarts(run: StoredRun) -> Iterable[str]:
    runs = run.result.history.runs
    if len(runs) > 1:
        rows = [(str(i), str(one.popsize), f"{one.fun:.8g}", stop.message(one.reasons)) for i, one in enumerate(runs)]
        yield "<h2>Runs</h2>"
        yield from _table("runs", ["run", "points per generation", "best value", "why it ended"], rows)


def _table(name: str, header: list[str], rows: Iterable[tuple[str, ...]]) -> Iterable[str]:
    yield f'<div class="scroll"><table id="{name}">'
    if any(header):
        yield "<tr>" + "".join(f"<th>{escape(text)}</th>" for text in header) + "</tr>"
    yield from ("<tr>" + "".join(f"<td>{escape(text)}</td>" for text in row) + "</tr>" for row in rows)
    yield "</table></div>"
