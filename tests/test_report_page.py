"""The report in a real browser: it opens, its pictures are there, and it fits the window."""

from __future__ import annotations

import json
import re
import shutil
import subprocess

import pytest

from sublevel.cli import main

BROWSER = next((path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None)
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--window-size=1200,900"),
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

pytestmark = pytest.mark.skipif(BROWSER is None, reason="no browser found: install Debian's chromium to open the report in one")


def seen(page, profile):
    """What a browser sees of a page."""
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{LOOK}</body>"), encoding="utf-8")
    command = [BROWSER, *FLAGS, f"--user-data-dir={profile}", "--virtual-time-budget=10000", "--dump-dom", page.as_uri()]
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
