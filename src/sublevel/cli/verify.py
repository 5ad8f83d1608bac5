"""`sublevel verify`."""

from __future__ import annotations

import argparse

from sublevel.cli.argument_types import seed
from sublevel.cli.common import Command, argument


def run_verify(given: argparse.Namespace) -> int:
    """Run all checks; 1 if one fails."""
    from sublevel.paper.theory import verify

    reports = verify.run_checks(verify.DEFAULT_SEED if given.seed is None else given.seed)
    print(verify.to_json(reports) if given.json else verify.render(reports))
    return 0 if verify.all_passed(reports) else 1


COMMAND = Command(
    "verify",
    "check the propositions, theorems, rates and remarks of the paper numerically",
    run_verify,
    (
        argument("--json", "print a JSON list of {name, statement, value, bound, passed}", action="store_true"),
        argument("--seed", "seed of the random problems and samples", seed, "S"),
    ),
    "example:\n  sublevel verify --json",
    "The exit status is 1 if a check fails.",
)
