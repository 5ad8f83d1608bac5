"""sublevel, as the cases use it."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np

import sublevel as sl
from faults.library import ALL, BUDGET, Given, Library, Stepper, keeping, threads
from faults.verdict import Answer
from sublevel.store.file import with_checksum


def answer_of(result: Any) -> Answer:
    return Answer(result.x, result.fun, bool(result.success), result.nfev, result.message)


class Sublevel(Library):
    """`minimize`, `resume`, `load` and `Optimizer`."""

    name, package = "sublevel", "sublevel"
    features = ALL

    def minimize(self, fun: Any, given: Given) -> Answer:
        arguments = {"x0": [1.0, 1.0], "sigma0": 0.5, "maxfevals": BUDGET, "rng": 1} | given.renamed(seed="rng")
        with contextlib.ExitStack() as stack:
            if "executor" in arguments:
                arguments["workers"] = stack.enter_context(threads(arguments.pop("executor")))
            stack.enter_context(keeping(lambda error: vars(error)["sublevel_result"].nfev))
            return answer_of(sl.minimize(fun, **arguments))

    def stepper(self) -> Stepper:
        optimizer = sl.Optimizer([1.0, 1.0], 0.5, rng=1)

        def finished() -> Answer:
            return Answer(optimizer.best_x, optimizer.best_fun, bool(optimizer.stop()), optimizer.nfev)

        return Stepper(optimizer.ask, optimizer.tell, lambda: bool(optimizer.stop()), finished, optimizer.popsize)

    def store(self, fun: Any, file: Path, given: Given) -> Answer:
        return self.minimize(fun, Given({"store": file, **given}))

    def resume(self, fun: Any, file: Path, given: Given) -> Answer:
        """Without the check of the objective, which evaluates one stored point again on purpose: the cases count such
        evaluations.
        """
        return answer_of(sl.resume(file, fun, check=False, **given))

    def numbers(self, file: Path) -> list[float]:
        run = sl.load(file)
        result = run.result
        return [
            result.nfev,
            result.fun,
            *result.x,
            *result.mean,
            *np.ravel(result.cov),
            *np.ravel(run.points),
            *run.values,
        ]

    def forge(self, file: Path, payload: bytes, well: bool) -> None:
        """The pickle instead of all arrays of the state; if `well`, with checksums that fit."""
        with sqlite3.connect(file) as connection:
            for *row, origin, crc in connection.execute(
                "SELECT name, facts, layout, origin, crc FROM parts"
            ).fetchall():
                fitting = with_checksum(*row, payload, origin)[-1] if well else crc
                connection.execute("UPDATE parts SET data = ?, crc = ? WHERE name = ?", (payload, fitting, row[0]))
        connection.close()
