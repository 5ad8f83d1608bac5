"""Compare the predictions of `sublevel.paper.theory.predictions` with runs, and check how far they are apart.

    python benchmarks/predictions.py [--quick] [--out DIR] [--jobs N]

Prints a table for each prediction, then a line for each criterion; exits with 1 if one is not met. The measurements are
those of `sublevel study predictions`, and are kept in DIR: a second call only computes the predictions again. About 20
minutes on one core, half of them for the predictions; `--quick` has fewer settings and needs a minute.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sublevel.paper.progress_bar import ProgressBar
from sublevel.paper.studies import SEED, Request, predictions
from sublevel.paper.studies.predictions import Comparison
from sublevel.paper.studies.request import compute_data
from sublevel.paper.studies.study import Data

CRITERIA = (
    ("final Cond(CA)", predictions.conditions, 0.08),
    ("rate", predictions.rates, 0.10),
    ("largest stable c_C", predictions.limits, 0.15),
    ("matched c_C", predictions.matches, 0.10),
)
"""Name, comparison, and the relative difference that is allowed."""


def verdict(name: str, rows: list[Comparison], allowed: float) -> tuple[str, bool]:
    """A line with the number of settings within the criterion, and whether all are."""
    outside = [row for row in rows if not abs(row.off) <= allowed]
    places = "; ".join(f"d = {row.d}, n = {row.n}, c_C = {row.c_cov:.3g}: {100 * row.off:+.1f} %" for row in outside)
    met = f"{len(rows) - len(outside)} of {len(rows)} within {100 * allowed:.0f} %"
    return f"{name:20s} {met}{'; outside: ' + places if outside else ''}", not outside


def judge(data: Data) -> bool:
    """Print a line for each criterion; whether all are met."""
    found = [verdict(name, compare(data), allowed) for name, compare, allowed in CRITERIA]
    print("\n".join(line for line, _ in found))
    return all(met for _, met in found)


def main() -> int:
    """Run the study, print its tables and judge them."""
    parser = argparse.ArgumentParser(description="Compare predictions with runs.")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=Path("studies"))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    request = Request("predictions", given.out, SEED, "quick" if given.quick else "full")
    works = request.study.works(request.scale, request.seed)
    data = compute_data(request, works, given.jobs, ProgressBar("predictions"))
    print("\n".join(predictions.findings(data)), end="\n\n")
    return 0 if judge(data) else 1


if __name__ == "__main__":
    sys.exit(main())
