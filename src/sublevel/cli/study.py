"""`sublevel study`."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sublevel.cli.common import Subparsers, Unable, add_command, count, seed


def add_study(commands: Subparsers) -> None:
    """`sublevel study`."""
    about = "run a study beyond the paper: data, a figure and the numbers found"
    example = "example:\n  sublevel study consistency --quick"
    parser = add_command(commands, "study", about, example, "If it is stopped or killed, the same command continues.")
    parser.add_argument("name", metavar="NAME", help="consistency, restricted, dimension or apart")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: studies, or studies-quick)")
    parser.add_argument("--seed", type=seed, metavar="S", help="same seed, same data, whatever the number of jobs")
    parser.add_argument("--quick", action="store_true", help="a smaller version: seconds on two cores instead of minutes")
    parser.add_argument("--jobs", type=count, metavar="N", help="processes (default: one for each core)")
    parser.set_defaults(run=run_study)


def run_study(given: argparse.Namespace) -> int:
    """Compute, draw, say what was found."""
    from sublevel.paper import studies
    from sublevel.paper.figures import schedule
    from sublevel.paper.figures.workbar import WorkBar

    if given.name not in studies.STUDIES:
        raise Unable(f"there is no study {given.name!r}. Choose one of {', '.join(studies.STUDIES)}.")
    request = studies.Request(
        name=given.name,
        out=given.out or Path("studies-quick" if given.quick else "studies"),
        seed=studies.SEED if given.seed is None else given.seed,
        scale="quick" if given.quick else "full",
    )
    try:
        lines = studies.run(request, given.jobs or schedule.available_cores(), WorkBar(given.name))
    except KeyboardInterrupt:
        print(f"\nstopped. What is finished is kept in {request.out}: the same command continues from there.", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        raise Unable(f"the figure needs {error.name}, which is not installed: pip install 'sublevel[plot,progress]'") from error
    except schedule.WorkerLost as error:
        raise Unable(f"{error}. What is finished is kept: the same command continues from there.") from error
    except OSError as error:
        raise Unable(f"cannot write to {request.out}: {error}. Choose another directory with --out.") from error
    print("\n".join(lines))
    print(f"\nfigure: {request.path.with_suffix('.png').resolve()}\ndata:   {request.path.resolve()}")
    return 0
