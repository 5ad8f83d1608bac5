"""Links of the documentation: those of its sources, and the check that `make docs` applies to its pages."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parent.parent
SOURCES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
ORDER = [
    *("Getting started", "User guide", "Tutorials", "Gallery", "How it works", "API reference", "Benchmarks"),
    *("Coming from …", "Changelog"),
]


COLUMNS = 138


def load_check():
    specification = importlib.util.spec_from_file_location("check_site", ROOT / "docs" / "check_site.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


check_site = load_check()


# Sources.


def tokens(text):
    """All tokens of a page, those within lines after the line."""
    for token in MarkdownIt("commonmark").enable("table").parse(text):
        yield token
        yield from token.children or ()


def anchors(text):
    """The anchors of the headings of a page, as GitHub makes them."""
    found, heading = {}, False
    for token in tokens(text):
        if token.type == "inline" and heading:
            words = "".join(part.content for part in token.children if part.type in ("text", "code_inline"))
            slug = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
            count = found.get(slug, 0)
            found[slug] = count + 1
            if count:
                found[f"{slug}-{count}"] = 1
        heading = token.type == "heading_open"
    return found.keys()


def broken_links(source):
    """The links and images of a page that lead nowhere, and addresses that are malformed."""
    text = source.read_text(encoding="utf-8")
    for token in tokens(text):
        address = token.attrs.get("href") or token.attrs.get("src")
        if not address:
            continue
        parts = urlsplit(str(address))
        if parts.scheme or parts.netloc:
            if not check_site.ADDRESS.fullmatch(str(address)):
                yield address
            continue
        target = source.parent / unquote(parts.path) if parts.path else source
        inside = parts.fragment and target.suffix == ".md"
        if not target.is_file() or (inside and unquote(parts.fragment) not in anchors(target.read_text("utf-8"))):
            yield address


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_the_links_of_a_source_lead_somewhere(source):
    assert list(broken_links(source)) == []


def test_broken_links_of_a_source_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# One `two`, three\n\n## Again\n\n## Again\n")
    good = "[a](other.md) [b](other.md#one-two-three) [c](other.md#again-1) [d](#here) [e](https://arxiv.org/abs/1)"
    bad = ["none.md", "other.md#two", "#there", "https://arxiv", "http://arxiv.org/abs/1", "none.png"]
    lines = [f"[x]({address})" for address in bad[:-1]] + [f"![x]({bad[-1]})"]
    (tmp_path / "page.md").write_text(f"# Here\n\n{good}\n\n`[x](code.md)`\n\n" + "\n".join(lines))
    assert list(broken_links(tmp_path / "page.md")) == bad


def needed_by_the_site():
    """Optional packages that notebooks import, and those of the adapters in the reference."""
    notebooks = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "gallery").glob("*.md"))
    imported = set(re.findall(r"^(?:from|import) (\w+)", notebooks, re.MULTILINE))
    reference = (ROOT / "docs" / "api" / "index.md").read_text(encoding="utf-8")
    return (imported & {"dask", "optuna", "pyarrow", "sklearn", "tqdm"}) | set(
        re.findall(r"^\.\. autoclass:: sublevel\.adapters\.(\w+)", reference, re.MULTILINE)
    )


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: str(source.relative_to(ROOT)))
def test_code_is_not_wider_than_the_site(source):
    """`docs/_static/site.css` has room for as many columns on a screen 1920 pixels wide."""
    blocks = [token for token in tokens(source.read_text(encoding="utf-8")) if token.type in ("fence", "code_block")]
    assert [line for block in blocks for line in block.content.splitlines() if len(line) > COLUMNS] == []


def test_make_docs_installs_what_the_site_imports():
    extras = re.search(r"^EXTRAS_docs := (.*)$", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)[1]
    assert {"dask", "optuna", "sklearn"} <= needed_by_the_site() <= set(extras.split(","))


def test_the_site_is_in_the_order_of_a_reader():
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    assert re.findall(r"^:caption: (.*)$", index, re.MULTILINE) == ORDER


# Pages.

PAGE = """<html><head><link rel="stylesheet" href="style.css"><link rel="next" href="two.html">
<script src="code.js"></script></head><body id="top"><img src="a%20picture.png" srcset="a%20picture.png 2x">
<img src="data:image/png;base64,AAAA"><a href="two.html#part">two</a> <a href="#top">up</a>
<a href="https://arxiv.org/abs/1204.4141">paper</a>{}</body></html>"""


@pytest.fixture
def site(tmp_path):
    for name in ("code.js", "a picture.png", "font.woff2"):
        (tmp_path / name).touch()
    (tmp_path / "style.css").write_text("@font-face { src: url('font.woff2'), url(data:font/woff2;base64,AAAA) }")
    (tmp_path / "two.html").write_text('<h1 id="part">Part</h1><a name="old" href="index.html">one</a>')
    (tmp_path / "index.html").write_text(PAGE.format('<a href="two.html#old">old</a>'))
    return tmp_path


def test_a_site_without_problems_passes(site, capsys):
    assert check_site.main(str(site)) == 0
    assert "2 pages" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("markup", "problem"),
    [
        ('<a href="none.html">x</a>', "none.html: no such file"),
        ('<a href="two.html#none">x</a>', "two.html#none: no such anchor"),
        ('<a href="#none">x</a>', "#none: no such anchor"),
        ('<a href="../outside.html">x</a>', "../outside.html: file outside of the site"),
        ('<a href=".">x</a>', ".: link to a directory, which has no page when read from disk"),
        ('<a href="https://arxiv">x</a>', "https://arxiv: malformed address"),
        ('<a href="http://arxiv.org">x</a>', "http://arxiv.org: malformed address"),
        ('<img src="none.png">', "none.png: no such file"),
        ('<img src="//other.org/a.png">', "//other.org/a.png: loaded from another site"),
        ('<img srcset="https://other.org/a.png 2x">', "https://other.org/a.png: loaded from another site"),
        ('<script src="https://other.org/a.js"></script>', "https://other.org/a.js: loaded from another site"),
        (
            '<link rel="preload stylesheet" href="https://other.org/a.css">',
            "https://other.org/a.css: loaded from another site",
        ),
        ('<p style="background: url(https://other.org/a)">', "https://other.org/a: loaded from another site"),
    ],
)
def test_each_kind_of_problem_is_found(site, markup, problem, capsys):
    (site.parent / "outside.html").touch()
    (site / "index.html").write_text(PAGE.format(markup))
    assert check_site.main(str(site)) == 1
    assert capsys.readouterr().err == f"index.html: {problem}\n"


@pytest.mark.parametrize("style", ["@import 'https://other.org/a.css';", "p { background: url(//other.org/a.png) }"])
def test_style_sheets_that_load_from_other_sites_are_found(site, style):
    (site / "style.css").write_text(style)
    assert ["loaded from another site" in line for line in check_site.problems(site)] == [True]


def test_a_folder_without_pages_is_no_site(tmp_path):
    assert check_site.main(str(tmp_path)) == 1
