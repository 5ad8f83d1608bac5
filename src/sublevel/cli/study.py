"""`sublevel study`."""

from __future__ import annotations

import argparse
from pathlib import Path

from sublevel.cli.common import Command, CommandError, argument, resumable_errors
from sublevel.cli.reproduce import CONTINUES, JOBS, SEED


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


QUESTIONS = """studies:
  consistency   how fast does the estimated natural gradient approach the exact one?
  restricted    what does a diagonal or isotropic covariance cost on a rotated ellipsoid?
  dimension     how does the time to learn C grow with the number of variables?
  apart         which functions tell NGD and the rank-mu CMA-ES apart, each at its best rate?
  predictions   how well do final Cond, rate, stability and matched rates follow from theory?
  estimator     is it better to estimate the volume of a point without the point itself?
  samplings     what do mirrored and orthogonal points do to the estimate, and to a run?
"""
COMMAND = Command(
    "study",
    "run a study that goes beyond the paper: data, a figure and a summary",
    run_study,
    (
        argument(
            "name", "consistency, restricted, dimension, apart, predictions, estimator or samplings", metavar="NAME"
        ),
        argument("--out", "output directory (default: studies, or studies-quick)", Path, "DIR"),
        SEED,
        argument("--quick", "a smaller version: seconds on two cores instead of minutes", action="store_true"),
        JOBS,
    ),
    QUESTIONS + "\nexample:\n  sublevel study consistency --quick",
    CONTINUES,
)
