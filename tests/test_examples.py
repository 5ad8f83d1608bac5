"""The examples run, and what they print and write is right."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("matplotlib")
ROOT = Path(__file__).parent.parent


def test_the_demo_fits_a_simulator_with_error_bars_and_a_report(tmp_path):
    script = ROOT / "examples" / "fit_simulator.py"
    for _ in range(2):  # a second time over the files of the first
        done = subprocess.run(
            [sys.executable, script, tmp_path / "demo"], capture_output=True, text=True, check=True, cwd=tmp_path
        )
    assert done.stderr == ""
    rows = re.findall(
        r"^(infection rate|recovery rate|first cases) +(\S+) +(\S+) +\[(\S+), (\S+)\]", done.stdout, re.MULTILINE
    )
    truth = dict(
        re.findall(r"(infection rate|recovery rate|first cases) ([\d.]+)[,.]", done.stdout.split("made with")[1])
    )
    assert len(rows) == len(truth) == 3
    for name, value, error, low, high in rows:
        assert abs(float(value) - float(truth[name])) < 4 * float(error)
        assert 0 < float(low) < float(value) < float(high)
        assert float(error) < 0.5 * float(value)
    assert {file.name for file in (tmp_path / "demo").iterdir()} == {"fit.db", "fit.html", "fit.png", "fit-errors.png"}
    assert str(tmp_path / "demo" / "fit.html") in done.stdout


def test_make_demo_runs_the_fit_and_names_the_reproduction():
    recipe = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ndemo:")[2].partition("\n\n")[0]
    assert "examples/fit_simulator.py" in recipe
    assert "sublevel reproduce --quick" in recipe
