"""The report of docs/report is complete and can be printed; printing itself needs a browser and is `make report`."""

from __future__ import annotations

import importlib.util
import re
from collections import Counter
from html.parser import HTMLParser
from pathlib import Path

import pytest

REPORT = Path(__file__).parent.parent / "docs" / "report"
VERDICTS = {"holds", "attained", "slip", "amended", "answered"}
VOID = {"meta", "img", "br", "hr"}


def load_build():
    spec = importlib.util.spec_from_file_location("report_build", REPORT / "build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def build():
    return load_build()


@pytest.fixture(scope="module")
def html(build):
    return build.page()


@pytest.fixture(scope="module")
def source():
    return (REPORT / "report.md").read_text(encoding="utf-8")


class Nesting(HTMLParser):
    """Raises AssertionError where an element is closed that is not the innermost open one."""

    def __init__(self):
        super().__init__()
        self.elements = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.elements.append(tag)

    def handle_startendtag(self, tag, attrs):
        """An element without content closes itself."""

    def handle_endtag(self, tag):
        assert self.elements.pop() == tag


def numbers(pattern, text):
    return [int(number) for number in re.findall(pattern, text, re.MULTILINE)]


def test_the_page_is_well_formed_and_self_contained(html):
    parser = Nesting()
    parser.feed(html)
    assert parser.elements == []
    assert set(re.findall(r'src="([^:"]*)', html)) == {"data"}
    assert "$" not in re.sub(r'src="[^"]*"', "", html)


def test_every_file_of_the_report_exists(build):
    files = list(build.linked_files())
    assert len(files) >= 10
    assert [file for file in files if not file.is_file()] == []


def test_figures_and_tables_are_numbered_in_order(html, source):
    for name, element in (("Figure", "<figure>"), ("Table", "<table>")):
        found = numbers(rf"^\*\*{name} (\d+)\.\*\*", source)
        assert found == list(range(1, html.count(element) + 1))


def test_every_statement_has_a_verdict(source):
    rows = re.findall(r"^\| (\d+) \|.*?[^\\]\| ([a-z ]+) \|.*\|$", source.partition("## 3")[0], re.MULTILINE)
    assert [int(number) for number, _ in rows] == list(range(1, 49))
    counts = Counter(verdict for _, verdict in rows)
    assert set(counts) == VERDICTS
    summary = (
        f"{counts['holds']} hold, {counts['attained']} bounds are attained, {counts['amended']} are amended, "
        f"{counts['slip']} are slips and {counts['answered']} is answered"
    )
    assert summary in source


def test_errata_are_those_the_statements_refer_to(source):
    table, _, errata = source.partition("## 3 ")
    listed = numbers(r"\*\*E(\d+)", errata)
    assert listed == list(range(1, len(listed) + 1))
    assert set(numbers(r"\bE(\d+)\)", table)) <= set(listed)


def test_relations_have_space_around_them(build):
    markup = build.body(r"$\{y : f(y)\}, X \sim N$")
    assert "<mo>&#x0223C;</mo>" in markup
    assert '<mo lspace="0.28em" rspace="0.28em">:</mo>' in markup
    assert "<mi>:</mi>" not in markup


def test_the_page_is_written_without_a_browser(build, tmp_path):
    build.main(["--html", str(tmp_path / "report.html")])
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")


def test_rows_of_verify_that_the_statements_name_are_those_of_the_page_of_the_paper(source):
    statements = source.partition("**Table 1.**")[2].partition("## 3")[0]
    named = {name for name in re.findall(r"(?<!\*)\*([^*|]+)\*(?!\*)", statements) if "…" not in name}
    known = (REPORT.parent / "paper.md").read_text(encoding="utf-8")
    assert len(named) >= 25
    assert {name for name in named if name not in known} == set()
