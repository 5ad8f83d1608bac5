"""Random whole runs: each is made with a file, with workers, by `ask` and `tell`, killed and resumed, and is the same.

`benchmarks/whole_runs.py --seeds A:B` checks the scenarios of other seeds.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

import pytest

from helpers.scenarios import Problem, Restriction, Scenario, Variable, draw
from helpers.whole_runs import WrongRun, check
from sublevel import AutoRestarts
from sublevel.engine.sampling import SAMPLINGS

ROOT = Path(__file__).parent.parent
FEW, MANY = range(32), range(32, 2000)
MOST_REFUSED = 0.25
"""Share of scenarios that may be refused."""


@pytest.mark.parametrize("seed", FEW)
def test_a_whole_run_is_as_promised(seed, tmp_path):
    check(draw(seed), tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seeds", [MANY[i : i + 100] for i in range(0, len(MANY), 100)], ids=str)
def test_many_whole_runs_are_as_promised(seeds, tmp_path):
    refused = 0
    for seed in seeds:
        (folder := tmp_path / str(seed)).mkdir()
        refused += check(draw(seed), folder) is not None
    assert refused <= MOST_REFUSED * len(seeds)


def test_the_repr_of_a_scenario_makes_it_again():
    for seed in range(200):
        scenario = draw(seed)
        names = {one.__name__: one for one in (Restriction, Scenario, Variable, AutoRestarts)}
        assert eval(repr(scenario), names) == scenario
        assert draw(seed) == scenario


def test_what_is_drawn_goes_together_with_everything():
    drawn = [draw(seed) for seed in range(1000)]
    assert {one.sampling for one in drawn} == {None, *SAMPLINGS}
    for kind in (lambda one: one.noise, lambda one: one.surrogate, lambda one: one.restrictions):
        some = [one for one in drawn if kind(one)]
        assert any(one.restarts == "auto" for one in some)
        assert any(one.rtolfun for one in some)
        assert any(one.sampling for one in some)
    assert any(isinstance(one.restarts, AutoRestarts) for one in drawn)


def test_a_wrong_run_is_found_and_said(tmp_path, monkeypatch):
    """The value of a point depends on the number of calls, so that no run is the same again."""
    calls = []

    def value(self, x):
        calls.append(x)
        return float(x @ x + len(calls))

    monkeypatch.setattr(Problem, "value", value)
    with pytest.raises(WrongRun, match=r"(?s)fun = .*Scenario\(seed=3.*--seeds 3:4"):
        check(draw(3), tmp_path)


def test_the_texts_of_defects_occur_once(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    spec = importlib.util.spec_from_file_location("defects", ROOT / "benchmarks" / "whole_runs_defects.py")
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "defects", module)
    spec.loader.exec_module(module)
    assert len(module.DEFECTS) >= 8
    for defect in module.DEFECTS:
        assert (ROOT / "src" / "sublevel" / defect.file).read_text().count(defect.old) == 1, defect.what
