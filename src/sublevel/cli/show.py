"""`sublevel show`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from sublevel.cli.common import FILE, Command, argument, describe_objective, printable
from sublevel.summaries import short_params

if TYPE_CHECKING:
    from sublevel.engine.arrays import Array
    from sublevel.store.load import StoredRun

MOST_NUMBERS = 1000
"""Number of variables up to which a point is printed in full."""


def run_show(given: argparse.Namespace) -> int:
    """Print the stored run."""
    from sublevel.cli.run_status import is_run_active
    from sublevel.store.load import load

    is_running = is_run_active(given.file)
    run = load(given.file)
    print(json.dumps(run_as_json(run, is_running)) if given.json else "\n".join(run_as_lines(run, is_running)))
    return 0


def run_as_json(run: StoredRun, is_running: bool) -> dict[str, object]:
    """The result as `minimize --json` prints it, and the settings of the run."""
    from sublevel.cli.result_output import result_as_json
    from sublevel.cli.run_status import read_status, state_name
    from sublevel.store.fingerprint import fingerprint

    settings = run.settings
    facts = result_as_json(run.result, read_status(run.path).seconds, None)
    facts |= {
        "file": str(run.path),
        "version": settings.version,
        "objective": describe_objective(settings),
        "method": settings.method,
        "popsize": settings.popsize,
        "variables": run.result.x.size,
        "state": state_name(run.result.reasons, is_running),
        "sha256": fingerprint(run.path),
    }
    return facts


def run_as_lines(run: StoredRun, is_running: bool) -> Iterator[str]:
    """The stored run in lines."""
    from sublevel.cli.result_output import search_nfev
    from sublevel.run.termination import message
    from sublevel.store.fingerprint import fingerprint

    settings, result = run.settings, run.result
    end = message(result.reasons) if result.reasons else "killed; continue with `sublevel resume`"
    yield f"file     {printable(str(run.path))}, written by sublevel {printable(settings.version)}"
    yield f"started  {describe_objective(settings)}"
    method = printable(settings.method or settings.parts)
    yield f"method   {method}, {result.x.size} variables, {settings.popsize} points per generation"
    yield f"state    {'running' if is_running else end}"
    yield f"spent    {search_nfev(result)} evaluations in {result.nit} generations, {result.restarts} restarts"
    yield f"fun      {result.fun_text() if settings.noise else repr(result.fun)}"
    if run.space is not None:
        yield f"params   {short_params(run.params, MOST_NUMBERS)}"
    else:
        if settings.names is not None:
            yield f"names    {printable(','.join(settings.names))}"
        yield f"x        {_format_point(result.x)}"
    yield f"failed   {int(np.count_nonzero(np.isnan(run.values)))} evaluations"
    yield f"sha256   {fingerprint(run.path)}"
    yield from (f"note     {finding}" for finding in result.diagnosis)
    if result.curvature is not None:
        yield ""
        yield from map(printable, result.curvature.summary().splitlines())


def _format_point(x: Array) -> str:
    """The values of a point (d,); only the first if there are very many."""
    if x.size <= MOST_NUMBERS:
        return ",".join(map(repr, x.tolist()))
    return f"{','.join(map(repr, x[:10].tolist()))},… and {x.size - 10} more; `sublevel show --json` prints all"


COMMAND = Command(
    "show",
    "print the settings, the state and the result of a stored run",
    run_show,
    (FILE, argument("--json", "print JSON; numbers that are not finite are null", action="store_true")),
    "examples:\n  sublevel show run.db\n  sublevel show run.db --json",
)
