"""Entry point of the command line.

Each command has a module of its own with a function that adds its parser. Exit status: 0 success, 1 a check failed or
no finite value was found, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

import sublevel
from sublevel.cli.common import CommandError, Subparsers, add_command, join_negative_values
from sublevel.cli.completion import SHELLS, collect_commands, completion_script
from sublevel.cli.export import add_export
from sublevel.cli.minimize import add_minimize
from sublevel.cli.report import add_report
from sublevel.cli.reproduce import add_reproduce
from sublevel.cli.resume import add_resume
from sublevel.cli.runs import add_runs
from sublevel.cli.show import add_show
from sublevel.cli.streams import tolerant_streams
from sublevel.cli.study import add_study
from sublevel.cli.verify import add_verify
from sublevel.cli.watch import add_watch
from sublevel.store.errors import StoreError

DESCRIPTION = (
    "Derivative-free optimization of a Python function or an external program. Runs can be stored in files and resumed."
)
EXAMPLES = """examples:
  sublevel minimize mymodule.py:cost --x0 0,0,0 --sigma0 0.5 --store run.db
  sublevel minimize --x0 1,2 --sigma0 0.3 --names rate,depth --pattern last --command ./simulate {rate} {depth}
  sublevel resume run.db mymodule.py:cost
  sublevel report run.db

Run `sublevel COMMAND --help` for the options of a command.
"""
COMPLETION_EXAMPLES = """examples:
  sublevel completion bash > ~/.local/share/bash-completion/completions/sublevel
  sublevel completion zsh > ~/.zfunc/_sublevel        # with fpath+=(~/.zfunc) before compinit in ~/.zshrc
  sublevel completion fish > ~/.config/fish/completions/sublevel.fish
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit status."""
    with tolerant_streams():
        return _main(sys.argv[1:] if arguments is None else arguments)


def make_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="sublevel", description=DESCRIPTION, epilog=EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--version", action="version", version=f"sublevel {sublevel.__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", title="commands")
    for add in COMMANDS:
        add(commands)
    return parser


def _main(arguments: Sequence[str]) -> int:
    parser = make_parser()
    try:
        given = parser.parse_args(join_negative_values(arguments))
        if "run" not in given:
            parser.print_help()
            return 0
        return given.run(given)
    except (CommandError, StoreError) as error:
        print(f"sublevel: {error}", file=sys.stderr)
        return error.status if isinstance(error, CommandError) else 2


def add_completion(commands: Subparsers) -> None:
    """`sublevel completion`."""
    parser = add_command(commands, "completion", "print a completion script for bash, zsh or fish", COMPLETION_EXAMPLES)
    parser.add_argument("shell", choices=SHELLS, help="shell to write the script for")
    parser.set_defaults(run=run_completion)


def run_completion(given: argparse.Namespace) -> int:
    """Print the script."""
    print(completion_script(given.shell, collect_commands(COMMANDS)), end="")
    return 0


COMMANDS: tuple[Callable[[Subparsers], None], ...] = (
    *(add_minimize, add_resume, add_runs, add_show, add_watch, add_report, add_export),
    *(add_reproduce, add_study, add_verify, add_completion),
)
"""All commands. To add one, write its module and add a line here."""
