"""`sublevel study`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.argument_types import count, seed
from sublevel.cli.common import CommandError, Subparsers, add_command, resumable_errors


def add_study(commands: Subparsers) -> None:
    """`sublevel study`."""
    summary = "run a study that goes beyond the paper: data, a figure and a summary"
    example = "example:\n  sublevel study consistency --quick"
    parser = add_command(commands, "study", summary, example, "After an interruption the same command continues.")
    parser.add_argument("name", metavar="NAME", help="consistency, restricted, dimension or apart")
    parser.add_argument("--out", type=Path, metavar="DIR", help="output directory (default: studies, or studies-quick)")
    parser.add_argument(
        "--seed", type=seed, metavar="S", help="seed of the random numbers; the data do not depend on --jobs"
    )
    parser.add_argument(
        "--quick", action="store_true", help="a smaller version: seconds on two cores instead of minutes"
    )
    parser.add_argument("--jobs", type=count, metavar="N", help="number of processes (default: one per core)")
    parser.set_defaults(run=run_study)


def run_study(given: argparse.Namespace) -> int:
    """Compute, draw and print the summary."""
    from sublevel.paper import runner, studies
    from sublevel.paper.progress_bar import ProgressBar

    if given.name not in studies.STUDIES:
        raise CommandError(f"unknown study {given.name!r}; choose one of {', '.join(studies.STUDIES)}.")
    request = studies.Request(
        name=given.name,
        out=given.out or Path("studies-quick" if given.quick else "studies"),
        seed=studies.SEED if given.seed is None else given.seed,
        scale="quick" if given.quick else "full",
    )
    with resumable_errors(request.out):
        lines = studies.run(request, given.jobs or runner.available_cores(), ProgressBar(given.name))
    print("\n".join(lines))
    print(f"\nfigure: {request.path.with_suffix('.png').resolve()}\ndata:   {request.path.resolve()}")
    return 0
