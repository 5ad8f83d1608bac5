"""Experiments on the suites of COCO, by the command `sublevel bench`."""

from __future__ import annotations

import re
import sys

import pytest

from sublevel.cli.main import main

pytest.importorskip("cocoex")


def bench(tmp_path, *arguments, out="data"):
    return main(["bench", *arguments, "--out", str(tmp_path / out)])


def lines_of(capfd):
    """The lines about problems."""
    return [line for line in capfd.readouterr().out.splitlines() if " evaluations" in line]


def test_data_is_what_the_postprocessing_of_coco_reads(tmp_path, capfd):
    given = ("bbob", "--dims", "2,3", "--functions", "1-2", "--instances", "1-2", "--budget", "60", "--method", "xnes")
    assert bench(tmp_path, *given) == 0
    assert len(lines_of(capfd)) == 8
    info = (tmp_path / "data" / "bbobexp_f1.info").read_text()
    assert info.count("algId = 'sublevel-xnes'") == 2  # one for each dimension
    for d in (2, 3):
        (evaluations,) = re.findall(rf"^data_f1/bbobexp_f1_DIM{d}.dat, 1:(\d+)\|.*, 2:\d+\|", info, re.MULTILINE)
        last = (tmp_path / "data" / "data_f1" / f"bbobexp_f1_DIM{d}.tdat").read_text().split("%")[1].splitlines()[-1]
        assert int(last.split()[0]) == int(evaluations) <= 60 * d


@pytest.mark.parametrize(("suite", "dims"), [("bbob-mixint", "5"), ("bbob-constrained", "2"), ("bbob-boxed", "2")])
def test_other_suites_are_searched_within_the_budget(tmp_path, capfd, suite, dims):
    assert bench(tmp_path, suite, "--dims", dims, "--functions", "1", "--instances", "1", "--budget", "20") == 0
    (line,) = lines_of(capfd)
    assert int(line.split()[1]) <= 20 * int(dims)
    assert any((tmp_path / "data").rglob("*.info"))


def test_same_seed_gives_the_same_data(tmp_path, capfd):
    given = ("bbob", "--dims", "2", "--functions", "3", "--instances", "1", "--budget", "50")
    for out, seed in (("a", "1"), ("b", "1"), ("c", "2")):
        bench(tmp_path, *given, "--seed", seed, out=out)
    one, other, third = ((tmp_path / out / "data_f3" / "bbobexp_f3_DIM2.tdat").read_bytes() for out in "abc")
    assert one == other != third


def test_problem_is_left_when_it_is_solved(tmp_path, capfd):
    bench(tmp_path, "bbob", "--dims", "2", "--functions", "1", "--instances", "1", "--budget", "10000")
    (line,) = lines_of(capfd)
    assert line.endswith("solved")
    assert int(line.split()[1]) < 1000


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bbob-biobj"], "`suite` must be one of bbob,"),
        (["bbob", "--budget", "0"], "must be positive, got 0.0"),
        (["bbob", "--method", "nonsense"], "nonsense"),
        (["bbob", "--restarts", "nonsense"], "nonsense"),
        (["bbob", "--dims", "two"], "`dimensions` must be numbers and ranges"),
        (["bbob", "--instances", "1-"], "`instances` must be numbers and ranges"),
        (["bbob", "--dims", "7"], "the suite bbob has no problems with dimensions: 7"),
    ],
)
def test_wrong_arguments_are_refused_before_anything_is_written(tmp_path, capsys, arguments, message):
    assert bench(tmp_path, *arguments) == 2
    assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_data_is_not_overwritten(tmp_path, capsys):
    (tmp_path / "data").mkdir()
    assert bench(tmp_path, "bbob") == 2
    assert "exists already. Choose another folder with --out" in capsys.readouterr().err


def test_missing_package_names_the_extra(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "cocoex", None)
    assert bench(tmp_path, "bbob") == 2
    assert "pip install 'sublevel[coco]'" in capsys.readouterr().err
