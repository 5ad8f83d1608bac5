"""The command line: `sublevel minimize` and its other commands, see `COMMANDS`.

A command is a function that adds its parser and names what to run. Exit status: 0 success, 1 a check failed or no value was found,
2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import sublevel
from sublevel.cli.common import Subparsers, Unable, add_command, count, joined, seed
from sublevel.cli.completion import SHELLS, completion_script, described_commands
from sublevel.cli.minimize import add_minimize
from sublevel.cli.stored import add_export, add_report, add_resume, add_runs, add_show, add_watch
from sublevel.cli.streams import tolerant_streams
from sublevel.cli.study import add_study
from sublevel.store.errors import StoreError

ABOUT = "Black-box optimization by natural gradients: minimise a Python function or an external program, and keep runs in files."
EXAMPLES = """examples:
  sublevel minimize mymodule.py:cost --x0 0,0,0 --sigma0 0.5 --store run.db
  sublevel minimize --x0 1,2 --sigma0 0.3 --names rate,depth --pattern last --command ./simulate {rate} {depth}
  sublevel resume run.db mymodule.py:cost
  sublevel report run.db

`sublevel COMMAND --help` describes the options of a command.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; its exit status."""
    with tolerant_streams():
        return _main(sys.argv[1:] if arguments is None else arguments)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="sublevel", description=ABOUT, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"sublevel {sublevel.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for add in COMMANDS:
        add(commands)
    return parser


def _main(arguments: Sequence[str]) -> int:
    parser = make_parser()
    try:
        given = parser.parse_args(joined(arguments))
        if "run" not in given:
            parser.print_help()
            return 0
        return given.run(given)
    except (Unable, StoreError) as error:
        print(f"sublevel: {error}", file=sys.stderr)
        return 2


def add_reproduce(commands: Subparsers) -> None:
    """`sublevel reproduce`."""
    about = "reproduce the figures of the paper with the theory drawn in, and check its statements"
    example = "example:\n  sublevel reproduce --quick --out results"
    parser = add_command(commands, "reproduce", about, example, "If it is stopped or killed, the same command continues.")
    parser.add_argument("--figures", type=figure_list, default=(1, 2, 3), metavar="1,2,3", help="which figures (default: all)")
    parser.add_argument("--trials", type=count, metavar="N", help="independent trials of each setting (default: 50; 2 to 8 with --quick)")
    parser.add_argument("--seed", type=seed, metavar="S", help="same seed, same data, whatever the number of jobs")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where to write (default: reproduction, or reproduction-quick)")
    parser.add_argument("--quick", action="store_true", help="fewer trials of the same settings: less than a minute on two cores")
    parser.add_argument("--jobs", type=count, metavar="N", help="processes (default: one for each core)")
    parser.set_defaults(run=run_reproduce)


def run_reproduce(given: argparse.Namespace) -> int:
    """Compute, draw, judge; 1 if a statement was not found."""
    from sublevel.paper.figures import Plan, config, reproduce, schedule
    from sublevel.paper.figures.table import table, verdict_line
    from sublevel.paper.figures.workbar import WorkBar

    plan = Plan(
        out=given.out or Path("reproduction-quick" if given.quick else "reproduction"),
        figures=given.figures,
        trials=given.trials or (None if given.quick else config.TRIALS),
        seed=config.SEED if given.seed is None else given.seed,
    )
    try:
        page, rows = reproduce(plan, given.jobs or schedule.available_cores(), WorkBar("reproduce"))
    except KeyboardInterrupt:
        print(f"\nstopped. What is finished is kept in {plan.out}: the same command continues from there.", file=sys.stderr)
        return 130
    except ModuleNotFoundError as error:
        raise Unable(f"the figures need {error.name}, which is not installed: pip install 'sublevel[plot,progress]'") from error
    except schedule.WorkerLost as error:
        raise Unable(f"{error}. What is finished is kept: the same command continues from there.") from error
    except OSError as error:
        raise Unable(f"cannot write to {plan.out}: {error}. Choose another directory with --out.") from error
    print(table(rows))
    print(f"\n{verdict_line(rows)}\nreport: {page.resolve()}")
    return 0 if all(row.found for row in rows) else 1


def add_verify(commands: Subparsers) -> None:
    """`sublevel verify`."""
    about = "check every proposition, theorem and numbered rate of the paper numerically"
    parser = add_command(commands, "verify", about, "example:\n  sublevel verify --json", "The exit status is 1 if a check fails.")
    parser.add_argument("--json", action="store_true", help="print a list of {name, statement, value, bound, passed}")
    parser.add_argument("--seed", type=seed, metavar="S", help="of the random problems and samples")
    parser.set_defaults(run=run_verify)


def run_verify(given: argparse.Namespace) -> int:
    """Run all checks; 1 if one fails."""
    from sublevel.paper.theory import verify

    reports = verify.verification(verify.DEFAULT_SEED if given.seed is None else given.seed)
    print(verify.as_json(reports) if given.json else verify.rendered(reports))
    return 0 if verify.all_passed(reports) else 1


def add_completion(commands: Subparsers) -> None:
    """`sublevel completion`."""
    about = "print the completion script of a shell"
    example = """examples:
  sublevel completion bash > ~/.local/share/bash-completion/completions/sublevel
  sublevel completion zsh > ~/.zfunc/_sublevel        # with fpath+=(~/.zfunc) before compinit in ~/.zshrc
  sublevel completion fish > ~/.config/fish/completions/sublevel.fish
"""
    parser = add_command(commands, "completion", about, example)
    parser.add_argument("shell", choices=SHELLS, help="bash, zsh or fish")
    parser.set_defaults(run=run_completion)


def run_completion(given: argparse.Namespace) -> int:
    """Print the script."""
    print(completion_script(given.shell, described_commands(COMMANDS)), end="")
    return 0


COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    *(add_minimize, add_resume, add_runs, add_show, add_watch, add_report, add_export),
    *(add_reproduce, add_study, add_verify, add_completion),
)
"""Every command; a new one is a line here and a function above."""


def figure_list(text: str) -> tuple[int, ...]:
    """Figures from "1,3": some of 1, 2 and 3, in order, each once."""
    from sublevel.paper.figures.config import FIGURES

    try:
        chosen = {int(word) for word in text.split(",")}
    except ValueError:
        chosen = set[int]()
    if not chosen or not chosen <= set(FIGURES):
        raise argparse.ArgumentTypeError(f"expected some of 1, 2 and 3, separated by commas, got {text!r}")
    return tuple(sorted(chosen))
