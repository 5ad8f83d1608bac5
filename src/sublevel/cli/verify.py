"""`sublevel verify`."""

from __future__ import annotations

import argparse

from sublevel.cli.argument_types import seed
from sublevel.cli.common import Subparsers, add_command


def add_verify(commands: Subparsers) -> None:
    """`sublevel verify`."""
    summary = "check the propositions, theorems and rates of the paper numerically"
    parser = add_command(
        commands, "verify", summary, "example:\n  sublevel verify --json", "The exit status is 1 if a check fails."
    )
    parser.add_argument(
        "--json", action="store_true", help="print a JSON list of {name, statement, value, bound, passed}"
    )
    parser.add_argument("--seed", type=seed, metavar="S", help="seed of the random problems and samples")
    parser.set_defaults(run=run_verify)


def run_verify(given: argparse.Namespace) -> int:
    """Run all checks; 1 if one fails."""
    from sublevel.paper.theory import verify

    reports = verify.run_checks(verify.DEFAULT_SEED if given.seed is None else given.seed)
    print(verify.to_json(reports) if given.json else verify.render(reports))
    return 0 if verify.all_passed(reports) else 1
