"""False alarms of `sublevel verify`: all rows over many seeds.

    OPENBLAS_NUM_THREADS=1 python benchmarks/verify_seeds.py --seeds 200

A row that fails is printed with its sentence. The table has, for each row, the failures and the range of its values.
Every statement is true, so that each failure is a false alarm; windows of sampled rows are five standard errors wide.
"""

from __future__ import annotations

import argparse
import os
import time

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

from sublevel.paper.theory.report import Report
from sublevel.paper.theory.verify import run_checks


def table(reports: dict[str, list[Report]]) -> str:
    """A line for each row: failures, smallest and largest value, and the bound for the last seed."""
    lines = [f"{'row':24}{'failed':>7}{'smallest':>14}{'largest':>14}  bound"]
    for row, found in reports.items():
        values, failed = [report.value for report in found], sum(not report.passed for report in found)
        lines.append(f"{row:24}{failed:7d}{min(values):14.6g}{max(values):14.6g}  {found[-1].bound}")
    return "\n".join(lines)


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=200, help="number of seeds")
    parser.add_argument("--first", type=int, default=0, help="the first of them")
    given = parser.parse_args()
    reports, begin = dict[str, list[Report]](), time.process_time()
    for seed in range(given.first, given.first + given.seeds):
        for report in run_checks(seed):
            reports.setdefault(report.name, []).append(report)
            if not report.passed:
                print(f"seed {seed}: {report.name} = {report.value:.6g}, {report.bound}: {report.sentence}", flush=True)
    print(table(reports))
    alarms = sum(not report.passed for found in reports.values() for report in found)
    seconds = (time.process_time() - begin) / given.seeds
    print(
        f"{alarms} false alarms in {given.seeds} seeds of {len(reports)} rows, {seconds:.1f} s of processor time each"
    )


if __name__ == "__main__":
    main()
