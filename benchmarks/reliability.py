"""What happens when something is wrong, here and elsewhere: bad input, bad objectives, dead workers, signals, damaged
files.

    python benchmarks/reliability.py [--library NAME ...] [--only TEXT ...] [--page docs/reliability.md] [--json FILE]
    [--keep FILE]

Every case runs in a process of its own with a limit of a few seconds, two at a time. The objective counts its calls
itself, in files. How a case ended is decided by the rules in `faults/verdict.py`, and which endings are right by the
table in `faults/cases.py`. Libraries that are not installed are left out. Needs Linux.
"""

from __future__ import annotations

import os

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import importlib
import importlib.util
import json
import resource
import sys
import time
from functools import partial
from pathlib import Path

LIBRARIES = {
    "sublevel": ("faults.ours", "Sublevel", "sublevel"),
    "cma": ("faults.peers", "Cma", "cma"),
    "cmaes": ("faults.peers", "Cmaes", "cmaes"),
    "scipy DE": ("faults.peers", "DifferentialEvolution", "scipy.optimize"),
    "optuna": ("faults.peers", "Optuna", "optuna"),
    "Py-BOBYQA": ("faults.peers", "PyBobyqa", "pybobyqa"),
    "nevergrad": ("faults.peers", "Nevergrad", "nevergrad"),
}
"""For each: the module and the class of how it is used, and its own module."""


def chosen_of(cases: list, only: list[str] | None) -> list:
    """The cases that are called so, 'group: name', or if none is called exactly so, those with the text in it; all for
    no texts.
    """
    names = [f"{case.group}: {case.name}" for case in cases]
    wanted = [{name for name in names if (name == text if text in names else text in name)} for text in only or [""]]
    return [case for case, name in zip(cases, names, strict=True) if any(name in some for some in wanted)]


def run_library(name: str, only: list[str] | None, lanes: int) -> list[dict]:
    """All cases with one library: a row for each, in the order of the table."""
    from faults.cases import CASES
    from faults.play import applies, played
    from faults.supervise import run_all
    from faults.verdict import Outcome, outcome

    module, kind, own = LIBRARIES[name]
    importlib.import_module(own)  # once, before the processes of all cases are forked from here
    library = getattr(importlib.import_module(module), kind)()
    chosen = chosen_of(CASES, only)
    rows = [
        {
            "library": name,
            "title": library.title,
            "group": case.group,
            "case": case.name,
            "outcome": Outcome.NONE,
            "right": True,
        }
        for case in chosen
    ]
    indices = [index for index, case in enumerate(chosen) if applies(case, library)]

    def done(number: int, seen) -> None:
        index = indices[number]
        ended = outcome(seen, chosen[index].rules)
        rows[index] |= {
            "outcome": ended,
            "right": ended in chosen[index].right,
            "said": said(seen),
            "finished": seen.finished,
        }
        rows[index] |= {"orphans": seen.orphans, "seconds": round(seen.seconds, 2)}
        mark = " " if rows[index]["right"] else "✗"
        print(
            f"{mark} {name:10} {rows[index]['group']}: {rows[index]['case']}: {ended} ({said(seen)[:150]})",
            file=sys.stderr,
            flush=True,
        )

    run_all([partial(played, chosen[index], library) for index in indices], lanes, done)
    return rows


def said(seen) -> str:
    """What a library said at the end, in a line."""
    if seen.is_late:
        return f"no end in {seen.seconds:.0f} s"
    if seen.died:
        return seen.died
    if seen.raised is not None:
        return (
            f"{seen.raised.kind}, {seen.raised.kept or 0} of {seen.finished} evaluations kept: {seen.raised.message}"[
                :200
            ]
        )
    if seen.answer is None:
        return seen.notes
    answer = seen.answer
    fun = "None" if answer.fun is None else f"{answer.fun:.3g}"
    return f"f = {fun}, success = {answer.success}, nfev = {answer.nfev} of {seen.finished}" + (
        f"; {seen.notes}" if seen.notes else ""
    )


def is_installed(name: str) -> bool:
    return importlib.util.find_spec(LIBRARIES[name][2].split(".")[0]) is not None


def in_a_process(name: str, only: list[str] | None, lanes: int) -> list[dict]:
    """The rows of a library from a process of its own, so that nobody sees what others import."""
    reader, writer = os.pipe()
    if (pid := os.fork()) == 0:
        try:
            os.close(reader)
            rows = run_library(name, only, lanes)
            with open(writer, "w") as file:
                json.dump(rows, file)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    os.close(writer)
    with open(reader) as file:
        text = file.read()
    os.waitpid(pid, 0)
    return json.loads(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", choices=LIBRARIES, help="only this one; may be repeated")
    parser.add_argument(
        "--only", action="append", help="only the case of this name, 'group: name', or those with this in it"
    )
    parser.add_argument("--lanes", type=int, default=2, help="cases at a time")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    parser.add_argument("--json", type=Path, help="write all rows into this file")
    parser.add_argument(
        "--keep", type=Path, help="take all rows that are not made now from this file, which --json wrote"
    )
    arguments = parser.parse_args()
    from faults.page import summary, with_tables

    names = [name for name in arguments.library or LIBRARIES if is_installed(name)]
    began, rows = (
        time.monotonic(),
        [row for name in names for row in in_a_process(name, arguments.only, arguments.lanes)],
    )
    computed = sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    run = {
        "libraries": names,
        "only": arguments.only or [],
        "seconds": time.monotonic() - began,
        "computed": computed,
        "lanes": arguments.lanes,
    }
    told = {"runs": [run], "rows": rows}
    if arguments.keep:
        told = joined(json.loads(arguments.keep.read_text()), told)
    print(summary(told))
    if arguments.json:
        arguments.json.write_text(json.dumps(told, indent=1))
    if arguments.page:
        arguments.page.write_text(with_tables(arguments.page.read_text(), told))


def joined(kept: dict, told: dict) -> dict:
    """What was told at an earlier time, with the rows that were told now in the place of their elders; and both
    runs.
    """
    now = {key(row): row for row in told["rows"]}
    rows = [now.pop(key(row), row) for row in kept["rows"]]
    return {"runs": [*kept["runs"], *told["runs"]], "rows": [*rows, *now.values()]}


def key(row: dict) -> tuple[str, str, str]:
    return row["library"], row["group"], row["case"]


if __name__ == "__main__":
    main()
