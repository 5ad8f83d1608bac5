"""Random whole runs, and what must hold of each of them.

    OPENBLAS_NUM_THREADS=1 python benchmarks/whole_runs.py --seeds 0:2000
    OPENBLAS_NUM_THREADS=1 python benchmarks/whole_runs.py --seeds 0:2000 --first

Each seed draws a scenario: a space, constraints, a method, restarts, noise, a surrogate, budgets, failures and workers
(`tests/helpers/scenarios.py`). Its run is made again with a file, with workers, by `ask` and `tell`, killed and
resumed, and in other ways, all of which must be equal to the last bit (`tests/helpers/whole_runs.py`). Prints what is
not as promised, with the scenario, and how many scenarios were refused. The exit status is 1 if there is a finding;
with `--first` the first one ends the search.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from helpers.scenarios import draw
from helpers.whole_runs import WrongRun, check


def seeds_of(text: str) -> range:
    """The seeds from A to B, which is not one of them."""
    first, last = map(int, text.split(":"))
    return range(first, last)


def main() -> None:
    """Check the scenarios of some seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--seeds", type=seeds_of, default=range(100), help="A:B, the first seed and the one after the last"
    )
    parser.add_argument("--first", action="store_true", help="end with the first finding")
    given = parser.parse_args()
    refusals, findings, count, began = Counter[str](), 0, 0, time.monotonic()
    for seed in given.seeds:
        count += 1
        with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as folder:
            try:
                refusal = check(draw(seed), Path(folder))
            except WrongRun as wrong:
                findings += 1
                print(f"seed {seed}: {wrong}\n", flush=True)
                if given.first:
                    break
            else:
                refusals.update([] if refusal is None else [refusal])
    refused = refusals.total()
    print(f"{count} scenarios: {findings} findings, {refused} refused ({100 * refused / count:.0f} %)")
    print(f"{(time.monotonic() - began) / count:.2f} s per scenario")
    for sentence, times in refusals.most_common(20):
        print(f"{times:5}  {sentence[:130]}")
    sys.exit(findings > 0)


if __name__ == "__main__":
    main()
