"""After how many random whole runs are defects found that the library once had?

    OPENBLAS_NUM_THREADS=1 python benchmarks/whole_runs_defects.py --seeds 0:300

Each defect is put back into a copy of the package, one at a time, and `benchmarks/whole_runs.py` looks for it. Prints
how many scenarios it took. `tests/test_whole_runs.py` checks that the texts to replace are still there.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mutations import copy_package

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Defect:
    """What was wrong, and the text of a file that makes it wrong again."""

    what: str
    file: str
    old: str
    new: str


DEFECTS = (
    Defect(
        "evaluations after the last stored state do not count if all constraints are kept feasible",
        "store/reader.py",
        "        if optimizer.noise:\n            (numbers, _), _",
        "        if optimizer.constraints is not None and not optimizer.constraints.parts:\n"
        "            return best\n"
        "        if optimizer.noise:\n            (numbers, _), _",
    ),
    Defect(
        "evaluations after the last stored state do not count at all",
        "store/reader.py",
        "if part.iteration > state.nit:",
        "if part.iteration < 0:",
    ),
    Defect(
        "a log-scaled variable becomes negative under a linear constraint",
        "run/projection.py",
        "np.maximum(low, SCALE_RANGE[0])",
        "low",
    ),
    Defect(
        "the interpreter aborts in nnls if a linear constraint has only integers",
        "run/projection.py",
        "    if not usable.any() or not np",
        "    if not np",
    ),
    Defect(
        "rank-lagrangian runs cannot be resumed after a restart",
        "store/reader.py",
        "if state.run.popsize != template.run.popsize:",
        "if state.run.popsize < 0:",
    ),
    Defect(
        "curvature evaluates f where constraints are violated",
        "hessian/calls.py",
        "evaluator_inside(self.constraints, self.fun",
        "evaluator_inside(None, self.fun",
    ),
    Defect(
        "limits depend on the sample size of the last restart",
        "run/minimize.py",
        "        popsize = optimizer.first_popsize\n        default",
        "        popsize = optimizer.popsize\n        default",
    ),
    Defect(
        "the history of a run resumed from its beginning has the sample size 0",
        "store/reader.py",
        "seen, optimizer.first_popsize, endings)",
        "seen, int(seen.popsizes[0]) if len(seen.popsizes) else 0, endings)",
    ),
    Defect(
        "LinAlgError where the centre of a curvature moves to a bound",
        "hessian/curvature.py",
        "return free_frame(rounder, minimum_in_box(probe, spectrum)), 1.0",
        "return replace(_rounder_frame(probe, spectrum), centre=frame.points(probe.newton)), 1.0",
    ),
    Defect(
        "curvature raises IndexError after a run without a whole generation",
        "hessian/frame.py",
        "    if not len(history):",
        "    if len(history) < 0:",
    ),
    Defect(
        "x0 is not evaluated if maxfevals is popsize",
        "run/minimize.py",
        "return None if has_no_value else start.x0",
        "return None if has_no_value or limits.maxfevals < optimizer.popsize + 1 else start.x0",
    ),
    Defect(
        "a run that is resumed with a smaller budget forgets its last evaluations",
        "run/minimize.py",
        "return {} if has_stored else self.budget_reason()",
        "return self.budget_reason()",
    ),
    Defect(
        "the history of an interrupted file has no runs after the last stored state",
        "run/history.py",
        "        unknown = max(len(self._begins) - len(done.endings) - 1, 0)",
        "        unknown = 0",
    ),
    Defect(
        "the list of runs ignores the evaluations of an unfinished generation",
        "cli/run_status.py",
        "            best=fun,",
        "            best=float(numbers[1]),",
    ),
)
"""Defects that were mended."""


def put_back(defect: Defect, copy: Path) -> None:
    """Replace a text of the copy, in which it occurs once."""
    path = copy / "src" / "sublevel" / defect.file
    text = path.read_text()
    if text.count(defect.old) != 1:
        raise SystemExit(f"{defect.file} has {text.count(defect.old)} times: {defect.old}")
    path.write_text(text.replace(defect.old, defect.new))


def search(copy: Path, seeds: str) -> str:
    """What the scenarios of some seeds find in a copy of the package."""
    command = [sys.executable, "benchmarks/whole_runs.py", "--seeds", seeds, "--first"]
    environment = os.environ | {"PYTHONPATH": str(copy / "src")}
    with (copy / "output").open("wb") as output:
        process = subprocess.Popen(command, cwd=copy, env=environment, stdout=output, start_new_session=True)
        try:
            status = process.wait()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # workers of a process that was aborted wait for ever
    if status < 0:
        return f"found: the process ended with signal {-status}"
    found = re.search(r"seed (\d+): (.*)", (copy / "output").read_text())
    return f"found by seed {found[1]}: {found[2][:110]}" if found else f"MISSED in {seeds}"


def main() -> None:
    """Put the defects back, one at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", default="0:300", help="A:B, the first seed and the one after the last")
    parser.add_argument("--only", default="", help="defects whose description contains this text")
    given = parser.parse_args()
    found = 0
    chosen = [one for one in DEFECTS if given.only in one.what]
    for defect in chosen:
        with tempfile.TemporaryDirectory() as name:
            copy_package(Path(name))
            put_back(defect, Path(name))
            answer = search(Path(name), given.seeds)
        found += answer.startswith("found")
        print(f"{defect.what}\n    {answer}", flush=True)
    print(f"{found} of {len(chosen)} defects were found.")


if __name__ == "__main__":
    main()
