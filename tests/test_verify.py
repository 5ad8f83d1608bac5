"""`sublevel verify`: all rows hold, say so to people and to machines, and can say the opposite."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from helpers.theory import ProjectedRates
from sublevel.paper.theory import checks, quadratic
from sublevel.paper.theory.report import Report, judge
from sublevel.paper.theory.verify import all_passed, render, run_checks, to_json

ROWS = [
    *("infimum of J", "score full", "score diagonal", "score isotropic", "score bernoulli", "Tr F⁻¹"),
    *(
        "NGD step",
        "NGD step, ties",
        "NGD step, n < d",
        "NGD step, η_m = η_C",
        "rates, η_m = η_C",
        "NGD plateau",
        "isotropic step",
        "diagonal step",
    ),
    *("rank-mu step", "rank-mu step, n < d", "Hansen-Kern rate", "invariance g", "invariance affine"),
    *("positivity", "positivity limit", "consistency", "consistency exponent", "E[V²] = ∞", "exchange", "own volume"),
    *("baseline", "baseline bias", "J", "prop:ng m", "prop:ng C", "step 6 erratum"),
    *("eq:diag-up", "thm:cond bound", "thm:cond bound reached", "thm:cond limit rate", "thm:cond rate reached"),
    *("thm:cond equality", "thm:cond erratum", "predicted curves", "predicted times"),
    *("thm:rate m", "thm:rate C", "thm:rate bound", "thm:rate reached", "rate of J", "rate of J, slow m"),
    *("worth of adaptation", "isotropic rate", "diagonal target", "diagonal target rate", "diagonal rate"),
    *("IGO rank-mu", "IGO PBIL", "deterministic IGO", "fixed cost"),
    *("V̂ from afar", "recombination", "standard CMA-ES", "noise shrinks C", "final Cond ngd", "final Cond rank-mu"),
    *("variance independent", "variance orthogonal", "variance mirrored", "variance mirrored-orthogonal"),
    "final Cond pairs",
]


@pytest.fixture(scope="module")
def reports():
    return run_checks()


def test_every_statement_has_its_row_and_every_row_passes(reports):
    assert [report.name for report in reports] == ROWS
    assert all_passed(reports), render(reports)


def test_the_same_seed_gives_the_same_reports(reports):
    assert run_checks() == reports


def test_another_seed_gives_other_problems_that_pass_too(reports):
    others = run_checks(seed=1)
    assert all_passed(others), render(others)
    assert others != reports


def test_json_has_the_keys_that_others_rely_on(reports):
    rows = json.loads(to_json(reports))
    assert [set(row) for row in rows] == [{"name", "statement", "value", "bound", "passed"}] * len(reports)
    for row, report in zip(rows, reports, strict=True):
        assert row["value"] == report.value
        assert row["bound"] == (list(report.bound) if isinstance(report.bound, tuple) else report.bound)
        assert row["passed"] is True


def test_the_table_has_a_line_for_each_row_and_says_how_many_passed(reports):
    lines = render(reports).splitlines()
    assert [line[4:].split("  ")[0].strip() for line in lines[2:-2]] == ROWS
    assert all(line.startswith("ok") for line in lines[2:-2])
    assert lines[-1] == f"{len(ROWS)} of {len(ROWS)} checks passed."


def test_a_failing_row_is_shown_as_failing(reports):
    failing = checks.isotropic_rate(
        quadratic.random_hessian_root(np.random.default_rng(1), 3, 50.0), 0.4, ProjectedRates(0.4, 0.4)
    )
    mixed = [*reports[:2], failing, *reports[2:]]
    table = render(mixed)
    assert not all_passed(mixed)
    assert next(line for line in table.splitlines() if line.startswith("FAIL")).split()[1:3] == ["isotropic", "rate"]
    assert failing.sentence in table
    assert table.endswith(f"{len(ROWS)} of {len(ROWS) + 1} checks passed; failed: isotropic rate.")
    assert [row["passed"] for row in json.loads(to_json(mixed))].index(False) == 2


@pytest.mark.parametrize(
    ("value", "bound", "passed"),
    [
        (1.0, 1.0, True),
        (1.1, 1.0, False),
        (-5.0, 1.0, True),
        (0.5, (0.4, 0.6), True),
        (0.3, (0.4, 0.6), False),
        (0.7, (0.4, 0.6), False),
        (np.nan, 1.0, False),
        (np.nan, (0.0, 1.0), False),
    ],
)
def test_a_value_is_judged_by_its_bound(value, bound, passed):
    assert judge("n", "s", value, bound, "").passed is passed
    assert judge("n", "s", value, bound, "", also=False).passed is False


def test_json_stays_json_when_a_value_is_not_a_number():
    row = json.loads(to_json([Report("n", "s", float("nan"), (0.0, float("inf")), False, "")]))[0]
    assert row["value"] is None
    assert row["bound"] == [0.0, None]


def test_numbers_next_to_one_show_their_distance():
    table = render([judge("n", "s", 1 - 2e-9, 1 + 1e-9, "")])
    assert "1 − 2e-09" in table
    assert "≤ 1 + 1e-09" in table


def test_the_page_on_the_paper_names_every_row():
    page = (Path(__file__).parent.parent / "docs" / "paper.md").read_text(encoding="utf-8")
    rows = {
        cell.strip() for line in page.splitlines() if line.count("|") == 5 for cell in line.split("|")[4].split(",")
    }
    names = ", ".join(sorted(rows))
    assert [row for row in ROWS if row not in rows and row not in page.replace(names, "")] == []
