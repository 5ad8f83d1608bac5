"""`sublevel bench`."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from sublevel.cli.argument_types import seed
from sublevel.cli.common import Command, CommandError, argument

if TYPE_CHECKING:
    from sublevel.adapters.coco import ProblemOutcome


def run_bench(given: argparse.Namespace) -> int:
    """Solve the problems of a suite, one line for each, and say where the data is."""
    from sublevel.adapters.coco import Experiment

    try:
        experiment = Experiment(
            suite=given.suite,
            dimensions=given.dims,
            functions=given.functions,
            instances=given.instances,
            budget=given.budget,
            method=given.method,
            restarts=given.restarts,
            seed=1 if given.seed is None else given.seed,
        )
        folder = (given.out or Path("exdata") / f"{given.suite}-{given.method}").resolve()
        if folder.exists():
            raise CommandError(f"{folder} exists already. Choose another folder with --out, or remove it.")
        folder.parent.mkdir(parents=True, exist_ok=True)
        solved = [print_outcome(outcome) for outcome in experiment.run(folder)]
    except (ValueError, ModuleNotFoundError) as error:
        raise CommandError(str(error)) from error
    print(f"\n{sum(solved)} of {len(solved)} problems solved to the last target\ndata: {folder}")
    print(f"figures and tables, with the package cocopp: python -m cocopp {folder}")
    return 0


def print_outcome(outcome: ProblemOutcome) -> bool:
    """A line for a problem, and whether it was solved."""
    print(f"{outcome.name}  {outcome.evaluations:9d} evaluations  {'solved' if outcome.hit else ''}".rstrip())
    return outcome.hit


COMMAND = Command(
    "bench",
    "run a method on a COCO test suite and write data for cocopp",
    run_bench,
    (
        argument("suite", "bbob, bbob-largescale, bbob-noisy, bbob-constrained, bbob-boxed or bbob-mixint"),
        argument("--dims", "dimensions, such as 2,3,5 (default: all of the suite)", str, "LIST", default=""),
        argument("--functions", "functions, such as 1-24 (default: all)", str, "LIST", default=""),
        argument("--instances", "instances, such as 1-5 (default: those of the suite)", str, "LIST", default=""),
        argument("--budget", "evaluations per dimension (default: 1000)", float, "NUMBER", default=1000.0),
        argument("--method", "method, as for `sublevel minimize` (default: cma)", str, "NAME", default="cma"),
        argument("--restarts", "restart strategy (default: bipop)", str, "NAME", default="bipop"),
        argument("--out", "folder of the data (default: exdata/SUITE-METHOD)", Path, "DIR"),
        argument("--seed", "seed of the random numbers (default: 1)", seed, "S"),
    ),
    "example:\n  sublevel bench bbob --dims 2,5 --instances 1-3 --budget 100",
    "Needs the package coco-experiment: pip install 'sublevel[coco]'.",
)
