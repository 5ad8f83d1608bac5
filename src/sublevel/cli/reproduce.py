"""`sublevel reproduce`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.argument_types import count, seed
from sublevel.cli.common import Command, argument, resumable_errors

SEED = argument("--seed", "seed of the random numbers; the data do not depend on --jobs", seed, "S")
JOBS = argument("--jobs", "number of processes (default: one per core)", count, "N")
CONTINUES = "After an interruption, run the same command again to continue."


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
        page, rows, results = reproduce(plan, given.jobs or available_cores(), ProgressBar("reproduce"))
    print(table(rows))
    print(f"\n{verdict_line(rows, results)}\nreport: {page.resolve()}")
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


COMMAND = Command(
    "reproduce",
    "reproduce the figures of the paper and check its statements",
    run_reproduce,
    (
        argument("--figures", "figures to reproduce (default: all)", figure_list, "1,2,3", default=(1, 2, 3)),
        argument("--trials", "independent trials per setting (default: 50; 4 to 8 with --quick)", count, "N"),
        SEED,
        argument("--out", "output directory (default: reproduction, or reproduction-quick)", Path, "DIR"),
        argument("--quick", "fewer trials of the same settings: less than a minute on two cores", action="store_true"),
        JOBS,
    ),
    "example:\n  sublevel reproduce --quick --out results",
    CONTINUES,
)
