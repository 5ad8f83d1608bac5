"""Evaluations on the processes of MPI: `MPIPoolExecutor` is an executor like any other."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import sublevel as sl
from helpers.objectives import sphere

pytest.importorskip("mpi4py")

PROGRAM = """
import os
import numpy as np
import sublevel as sl
from mpi4py.futures import MPIPoolExecutor


def evaluate(x):
    with open(os.path.join({folder!r}, str(os.getpid())), "a") as file:
        print("called", file=file)
    return float(x @ x)


if __name__ == "__main__":
    with MPIPoolExecutor() as pool:
        result = sl.minimize(evaluate, np.ones(3), 0.5, popsize=6, maxfevals=61, rng=1, workers=pool)
    print(os.getpid(), result.nfev, result.fun.hex())
"""

OPEN_MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
"""Without these Open MPI refuses to run as root, as in containers, or with more processes than cores."""


@pytest.mark.skipif(shutil.which("mpiexec") is None, reason="needs mpiexec")
def test_processes_of_mpi_give_the_bits_of_the_serial_run(tmp_path):
    program, calls = tmp_path / "program.py", tmp_path / "calls"
    program.write_text(PROGRAM.replace("{folder!r}", repr(str(calls))))
    calls.mkdir()
    command = ["mpiexec", "-n", "3", sys.executable, "-m", "mpi4py.futures", str(program)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True, env=os.environ | OPEN_MPI)
    process, nfev, fun = done.stdout.split()
    serial = sl.minimize(sphere, np.ones(3), 0.5, popsize=6, maxfevals=61, rng=1)
    assert (int(nfev), float.fromhex(fun)) == (serial.nfev, serial.fun)
    used = {file.name: len(file.read_text().splitlines()) for file in calls.iterdir()}
    assert process not in used
    assert sum(used.values()) == serial.nfev
