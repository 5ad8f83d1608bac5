"""`sublevel reproduce`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.argument_types import count, seed
from sublevel.cli.common import Subparsers, add_command, resumable_errors


def add_reproduce(commands: Subparsers) -> None:
    """`sublevel reproduce`."""
    summary = "reproduce the figures of the paper and check its statements"
    example = "example:\n  sublevel reproduce --quick --out results"
    parser = add_command(commands, "reproduce", summary, example, "After an interruption the same command continues.")
    parser.add_argument(
        "--figures", type=figure_list, default=(1, 2, 3), metavar="1,2,3", help="figures to reproduce (default: all)"
    )
    parser.add_argument(
        "--trials", type=count, metavar="N", help="independent trials per setting (default: 50; 2 to 8 with --quick)"
    )
    parser.add_argument(
        "--seed", type=seed, metavar="S", help="seed of the random numbers; the data do not depend on --jobs"
    )
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="output directory (default: reproduction, or reproduction-quick)"
    )
    parser.add_argument(
        "--quick", action="store_true", help="fewer trials of the same settings: less than a minute on two cores"
    )
    parser.add_argument("--jobs", type=count, metavar="N", help="number of processes (default: one per core)")
    parser.set_defaults(run=run_reproduce)


def run_reproduce(given: argparse.Namespace) -> int:
    """Compute, draw and check; 1 if a statement was not confirmed."""
    from sublevel.paper.figures import Plan, config, reproduce
    from sublevel.paper.figures.statements import table, verdict_line
    from sublevel.paper.progress_bar import ProgressBar
    from sublevel.paper.runner import available_cores
    from sublevel.paper.streams import SEED

    plan = Plan(
        out=given.out or Path("reproduction-quick" if given.quick else "reproduction"),
        figures=given.figures,
        trials=given.trials or (None if given.quick else config.EXPERIMENT.trials),
        seed=SEED if given.seed is None else given.seed,
    )
    with resumable_errors(plan.out):
        page, rows = reproduce(plan, given.jobs or available_cores(), ProgressBar("reproduce"))
    print(table(rows))
    print(f"\n{verdict_line(rows)}\nreport: {page.resolve()}")
    return 0 if all(row.found for row in rows) else 1


def figure_list(text: str) -> tuple[int, ...]:
    """Figures from "1,3": some of 1, 2 and 3, in order, without repetition."""
    try:
        chosen = {int(word) for word in text.split(",")}
    except ValueError:
        chosen = set[int]()
    if not chosen or not chosen <= {1, 2, 3}:
        raise argparse.ArgumentTypeError(f"expected some of 1, 2 and 3, separated by commas, got {text!r}")
    return tuple(sorted(chosen))
