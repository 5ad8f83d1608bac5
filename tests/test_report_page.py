"""The report in a real browser: it opens, its pictures are there, and it fits the window."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess

import numpy as np
import pytest

import sublevel as sl
from sublevel.cli.main import main

BROWSER = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
LOOK = """<script>addEventListener("load", () => { document.title = JSON.stringify({
    pictures: [...document.images].map(image => image.naturalWidth),
    statements: document.querySelectorAll("#statements tr").length - 1,
    verdicts: [...document.querySelectorAll("#statements td.verdict")].map(cell => cell.innerText),
    settings: document.querySelectorAll("#settings tr").length - 1,
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    fetched: performance.getEntriesByType("resource").filter(entry => !entry.name.startsWith("data:")).length,
}) })</script>"""
"""Added to a copy of the page; it writes what it sees into the title."""

pytestmark = pytest.mark.skipif(
    BROWSER is None, reason="no browser found: install Debian's chromium to open the report in one"
)


SIZES = """<script>addEventListener("load", () => { document.title = JSON.stringify({
    overflow: document.documentElement.scrollWidth - document.documentElement.clientWidth,
    width: document.documentElement.clientWidth,
    pictures: [...document.images].map(image => ({left: image.getBoundingClientRect().left, shown: image.clientWidth,
        natural: image.naturalWidth,
        ratio: image.clientWidth / image.clientHeight * image.naturalHeight / image.naturalWidth})),
}) })</script>"""


def seen(page, profile, script=LOOK, width=1200):
    """What a browser sees of a page."""
    text = re.sub(
        r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", page.read_text(encoding="utf-8")
    )  # it forbids our script too
    copy = page.with_name(f"copy{width}.html")
    copy.write_text(text.replace("</body>", f"{script}</body>"), encoding="utf-8")
    flags = [
        *FLAGS,
        f"--window-size={width},900",
        f"--user-data-dir={profile}",
        "--virtual-time-budget=10000",
        "--dump-dom",
    ]
    command = [BROWSER, *flags, copy.as_uri()]
    dom = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout
    return json.loads(re.search(r"<title>(.*?)</title>", dom, re.DOTALL)[1])


def test_report_opens_in_a_browser(tmp_path):
    out = tmp_path / "out"
    assert main(["reproduce", "--figures", "3", "--trials", "1", "--out", str(out), "--jobs", "2"]) in (0, 1)
    page = seen(out / "report.html", tmp_path / "profile")
    assert len(page["pictures"]) == 1
    assert min(page["pictures"]) > 0
    assert page["statements"] == len(page["verdicts"]) == 5
    assert set(page["verdicts"]) <= {"found", "NOT FOUND"}
    assert page["settings"] == 8
    assert page["overflow"] == 0
    assert page["fetched"] == 0


def report_of(folder, **settings):
    """The page of a stored run."""
    sl.minimize(lambda x: 37.0 + float(np.sum(x * x)), np.ones(2), 0.5, rng=1, store=folder / "run.db", **settings)
    assert main(["report", str(folder / "run.db")]) == 0
    return folder / "run.html"


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    return report_of(tmp_path_factory.mktemp("report"), names=["<b>k</b>", "rate"])


@pytest.mark.parametrize("width", [1200, 500])
def test_pictures_of_a_run_fit_the_window_and_are_not_enlarged(report, tmp_path, width):
    """500 is the narrowest window that every version of the browser opens."""
    page = seen(report, tmp_path / "profile", SIZES, width)
    assert page["overflow"] == 0
    assert len(page["pictures"]) == 5
    for picture in page["pictures"]:
        assert 0 < picture["shown"] <= min(picture["natural"], 560)
        assert picture["ratio"] == pytest.approx(1, abs=0.02)
    columns = len({round(picture["left"]) for picture in page["pictures"]})
    assert columns == (2 if page["width"] > 900 else 1)


def test_pictures_of_a_run_are_vector_graphics_without_scripts(report):
    text = report.read_text(encoding="utf-8")
    pictures = re.findall(r'src="data:image/([a-z+]+);base64,([^"]*)"', text)
    assert [kind for kind, _ in pictures] == ["svg+xml"] * 5
    for _, data in pictures:
        drawing = base64.b64decode(data).decode()
        assert "<svg" in drawing
        assert not re.search(r"<script|<image|onload|javascript:", drawing)
    assert "&lt;b&gt;k&lt;/b&gt;" in text
    assert "<b>" not in text
    assert "@media print" in text


def test_the_same_run_gives_the_same_page(report):
    before = report.read_bytes()
    assert main(["report", str(report.with_name("run.db")), "--out", str(report.with_name("again.html"))]) == 0
    assert report.with_name("again.html").read_bytes() == before


def test_the_spread_of_the_search_is_not_taken_for_error_bars(report):
    text = report.read_text(encoding="utf-8")
    assert "standard deviation of the search" in text
    assert "they are not error bars" in text


def test_a_report_of_many_variables_lists_some_of_them(tmp_path):
    settings = {"method": "sep-cma", "maxiter": 3, "vectorized": True, "store": tmp_path / "run.db", "rng": 1}
    sl.minimize(lambda X: np.sum(X * X, axis=1), np.ones(3000), 0.5, **settings)
    assert main(["report", str(tmp_path / "run.db")]) == 0
    text = (tmp_path / "run.html").read_text(encoding="utf-8")
    assert "3000 variables" in text
    assert text.count("<tr>") < 250
    assert len(text) < 1_000_000
