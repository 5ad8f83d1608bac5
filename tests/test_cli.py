"""The command line: what it accepts, what it says, and its exit status."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from dataclasses import replace

import pytest

import sublevel
from helpers.paper_results import paper_results
from sublevel.cli.common import join_negative_values
from sublevel.cli.main import COMMANDS, main, make_parser
from sublevel.paper import figures, runner
from sublevel.paper.figures.statements import statements
from sublevel.paper.theory import verify


@pytest.fixture
def pretended(monkeypatch, tmp_path):
    """Let `reproduce` be answered by made-up rows, or by an error; what it was asked is kept."""
    asked = {}

    def pretend(answer):
        def reproduce(plan, jobs, progress):
            asked.update(plan=plan, jobs=jobs)
            if isinstance(answer, BaseException):
                raise answer
            return tmp_path / "report.html", answer, {}

        monkeypatch.setattr(figures, "reproduce", reproduce)
        return asked

    return pretend


def test_reproduce_runs_the_paper_by_default(pretended, capsys):
    asked = pretended(statements(paper_results()))
    assert main(["reproduce"]) == 0
    plan = asked["plan"]
    assert (plan.figures, plan.trials, plan.d, str(plan.out)) == ((1, 2, 3), 50, 20, "reproduction")
    assert asked["jobs"] == runner.available_cores()
    said = capsys.readouterr().out
    assert "All 19 statements of the paper were found." in said
    assert "report.html" in said.splitlines()[-1]


def test_reproduce_takes_its_options(pretended, tmp_path):
    asked = pretended(statements(paper_results()))
    main(["reproduce", "--figures", "3,1", "--trials", "7", "--seed", "0", "--out", str(tmp_path), "--jobs", "3"])
    plan = asked["plan"]
    assert (plan.figures, plan.trials, plan.seed, plan.out, asked["jobs"]) == ((1, 3), 7, 0, tmp_path, 3)


def test_quick_run_has_fewer_trials_of_the_same_settings(pretended):
    asked = pretended(statements(paper_results()))
    main(["reproduce", "--quick"])
    plan = asked["plan"]
    assert plan.figures == (1, 2, 3)
    assert {plan.trials_of(setting) for setting in paper_results()} <= set(range(4, 9))
    assert str(plan.out) == "reproduction-quick"


def test_statement_that_was_not_found_is_in_the_exit_status(pretended, capsys):
    rows = statements(paper_results())
    pretended([replace(rows[0], found=False), *rows[1:]])
    assert main(["reproduce"]) == 1
    assert "18 of 19 statements of the paper were found, 1 not." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--figures", "4", "some of 1, 2 and 3"),
        ("--figures", "one", "some of 1, 2 and 3"),
        ("--figures", "", "some of 1, 2 and 3"),
        ("--trials", "0", "at least 1"),
        ("--jobs", "-1", "at least 1"),
        ("--seed", "x", "at least 0"),
    ],
)
def test_option_that_makes_no_sense_is_refused(capsys, option, value, words):
    with pytest.raises(SystemExit) as exit:
        main(["reproduce", f"{option}={value}"])
    assert exit.value.code == 2
    assert words in capsys.readouterr().err


def test_directory_that_cannot_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").touch()
    assert main(["reproduce", "--out", str(tmp_path / "file" / "out")]) == 2
    said = capsys.readouterr().err
    assert "cannot write to" in said
    assert "--out" in said


def test_missing_matplotlib_is_said_before_anything_is_computed(tmp_path, capsys, monkeypatch):
    monkeypatch.delitem(sys.modules, "sublevel.paper.figures.draw", raising=False)
    monkeypatch.delattr(figures, "draw", raising=False)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert main(["reproduce", "--out", str(tmp_path / "out")]) == 2
    assert "pip install 'sublevel[plot,progress]'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (KeyboardInterrupt(), 130, "the same command continues"),
        (runner.WorkerLost("a worker process ended"), 2, "the same command continues"),
        (OSError("disk full"), 2, "disk full"),
    ],
)
def test_run_that_ends_early_says_how_to_go_on(pretended, capsys, error, status, words):
    pretended(error)
    assert main(["reproduce"]) == status
    assert words in capsys.readouterr().err


@pytest.fixture
def reports(monkeypatch):
    """What `verify` finds, quickly: three of its checks."""
    few = verify.run_checks()[:3]
    monkeypatch.setattr(verify, "run_checks", lambda seed: few)
    return few


def test_verify_prints_a_row_for_each_check(reports, capsys):
    assert main(["verify"]) == 0
    said = capsys.readouterr().out
    assert all(report.name in said for report in reports)


def test_verify_prints_json(reports, capsys):
    assert main(["verify", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert [set(row) for row in rows] == [{"name", "statement", "value", "bound", "passed"}] * 3


def test_check_that_fails_is_in_the_exit_status(reports, capsys):
    reports[0] = replace(reports[0], passed=False)
    assert main(["verify", "--seed", "3"]) == 1


def test_command_is_there_as_a_module():
    said = subprocess.run(
        [sys.executable, "-m", "sublevel", "--version"], capture_output=True, text=True, check=True
    ).stdout
    assert said == f"sublevel {sublevel.__version__}\n"


def test_command_line_without_a_command_shows_help(capsys):
    assert main([]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("usage: sublevel")
    assert "minimize a Python function or an external program" in said.out
    assert said.err == ""


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_every_command_has_an_example_that_can_be_parsed(command, capsys):
    with pytest.raises(SystemExit) as exit:
        main([command, "--help"])
    assert exit.value.code == 0
    said = capsys.readouterr().out
    examples = re.findall(rf"^  sublevel ({command} [^#>\n]*)", said, re.MULTILINE)
    assert examples
    assert all("run" in make_parser().parse_args(join_negative_values(shlex.split(example))) for example in examples)
