"""What users see of our types: a script of theirs is clean in pyright strict and in mypy strict, and slips are
found.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
SCRIPTS = [HERE / "typing" / name for name in ("user_script.py", "wrong_script.py")]
MYPY_LINE = re.compile(r"^(?:.*[/\\])?(\w+\.py):(\d+): error: (.*)$")


def wrong_lines():
    """Lines that are marked as wrong, by file and number."""
    marked = set()
    for file in SCRIPTS:
        lines = file.read_text(encoding="utf-8").splitlines()
        marked |= {(file.name, number) for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    return marked


def mypy_errors():
    """Lines of which mypy complains in its strict mode."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--no-error-summary",
        "--hide-error-context",
        "--no-pretty",
        *map(str, SCRIPTS),
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=HERE.parent, check=False)
    assert run.returncode in (0, 1), run.stderr
    found = [match.groups() for line in run.stdout.splitlines() if (match := MYPY_LINE.match(line))]
    return {(file, int(number)): message for file, number, message in found}


def pyright_errors(directory):
    """Lines of which pyright complains in its strict mode."""
    for file in SCRIPTS:
        shutil.copy(file, directory)
    settings = {"include": [file.name for file in SCRIPTS], "typeCheckingMode": "strict"}
    (directory / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    command = [sys.executable, "-m", "pyright", "-p", str(directory), "--pythonpath", sys.executable, "--outputjson"]
    run = subprocess.run(command, capture_output=True, text=True, cwd=directory, check=False)
    assert run.returncode in (0, 1), run.stdout + run.stderr
    found = json.loads(run.stdout[run.stdout.index("{") :])["generalDiagnostics"]
    return {
        (Path(each["file"]).name, each["range"]["start"]["line"] + 1): each["message"]
        for each in found
        if each["severity"] == "error"
    }


@pytest.mark.slow  # mypy reads NumPy's stubs for 15 s, unless its cache is warm
def test_a_script_is_clean_in_mypy_strict_and_slips_are_found():
    pytest.importorskip("mypy", reason="mypy is a tool of the extra `lint`")
    errors = mypy_errors()
    assert errors.keys() == wrong_lines(), errors


def test_a_script_is_clean_in_pyright_strict_and_slips_are_found(tmp_path):
    pytest.importorskip("pyright", reason="pyright is a tool of the extra `lint`")
    errors = pyright_errors(tmp_path)
    assert errors.keys() == wrong_lines(), errors
