"""Entry point of the command line.

Each command is a module with a `COMMAND`. Exit status: 0 success, 1 a check failed or
no finite value was found, 2 wrong usage, 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

import sublevel
from sublevel.cli import bench, dashboard, export, minimize, report, reproduce, resume, runs, show, study, verify, watch
from sublevel.cli.common import Command, CommandError, argument, join_negative_values
from sublevel.cli.completion import SCRIPTS
from sublevel.cli.standard_streams import tolerant_streams
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
    for command in COMMANDS:
        command.add_to(commands)
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


def run_completion(given: argparse.Namespace) -> int:
    """Print the script."""
    print(SCRIPTS[given.shell](COMMANDS), end="")
    return 0


SHELL = argument("shell", "shell to write the script for", choices=[*SCRIPTS])
SUMMARY = "print a completion script for bash, zsh or fish"
COMPLETION = Command("completion", SUMMARY, run_completion, (SHELL,), COMPLETION_EXAMPLES)
COMMANDS = (
    *(minimize.COMMAND, resume.COMMAND, runs.COMMAND, show.COMMAND, watch.COMMAND, report.COMMAND, export.COMMAND),
    *(dashboard.COMMAND, reproduce.COMMAND, study.COMMAND, bench.COMMAND, verify.COMMAND, COMPLETION),
)
"""All commands. To add one, write its module and add it here."""
