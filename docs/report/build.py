"""Print the report: report.md to HTML, and to PDF by a browser without a window.

    python docs/report/build.py [--html] [OUT]

OUT is build/report.pdf, or build/report.html with `--html`, which needs no browser. Nothing is fetched: formulas become
MathML, and pictures are embedded.
"""

from __future__ import annotations

import argparse
import base64
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markdown_it.utils import EnvType, OptionsDict
from mdit_py_plugins.dollarmath import dollarmath_plugin

sys.path.insert(0, str(Path(__file__).parents[1] / "_extensions"))

from formulas import to_mathml

HERE = Path(__file__).parent
SOURCE = HERE / "report.md"
STYLE = HERE / "print.css"
BUILD = HERE.parents[1] / "build"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-pdf-header-footer"),
)
PICTURE = re.compile(r'<p><img src="(?P<path>[^"]+)" alt="(?P<alt>[^"]*)" /></p>\s*<p>(?P<caption>.*?)</p>', re.DOTALL)
INDEX = re.compile(r"(?<!\w)(\w)_(\w)(?!\w)")
POWER = re.compile(r"\^(?:\(([^()]+)\)|([−\d.]+))")
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)[^)]*\)")


def formula(latex: str, options: dict[str, bool]) -> str:
    """MathML of a formula."""
    return to_mathml(latex, displayed=options["display_mode"])


def plain_text(self: RendererHTML, tokens: Sequence[Token], index: int, options: OptionsDict, env: EnvType) -> str:
    """HTML of text without markup: c_C has an index and d^1.5 an exponent."""
    text = INDEX.sub(r"\1<sub>\2</sub>", escapeHtml(tokens[index].content))
    return POWER.sub(lambda match: f"<sup>{match[1] or match[2]}</sup>", text)


def body(text: str) -> str:
    """HTML of Markdown with tables, and formulas between dollars."""
    markdown = MarkdownIt("commonmark", {"typographer": True}).enable(["table", "smartquotes"])
    markdown.use(dollarmath_plugin, renderer=formula)
    markdown.add_render_rule("text", plain_text)
    return markdown.render(text)


def with_pictures(html: str, folder: Path) -> str:
    """The same HTML, every picture embedded, with the paragraph after it as its caption."""

    def figure(match: re.Match[str]) -> str:
        data = base64.b64encode((folder / match["path"]).read_bytes()).decode("ascii")
        return (
            f'<figure><img src="data:image/png;base64,{data}" alt="{match["alt"]}" />'
            f"<figcaption>{match['caption']}</figcaption></figure>"
        )

    return PICTURE.sub(figure, html)


def page(source: Path = SOURCE) -> str:
    """The whole HTML page."""
    text = source.read_text(encoding="utf-8")
    title = text.partition("\n")[0].removeprefix("# ")
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><title>{title}</title>\n'
        f"<style>{STYLE.read_text(encoding='utf-8')}</style></head>\n"
        f"<body>{with_pictures(body(text), source.parent)}</body></html>\n"
    )


def linked_files(source: Path = SOURCE) -> Iterator[Path]:
    """The files that the report links to or shows."""
    for match in LINK.finditer(source.read_text(encoding="utf-8")):
        if "://" not in match["target"]:
            yield source.parent / match["target"]


def print_page(html: str, out: Path) -> None:
    """Print HTML to a PDF file.

    Raises
    ------
    RuntimeError
        No browser was found.
    """
    browser = next((path for name in BROWSERS if (path := shutil.which(name))), None)
    if browser is None:
        raise RuntimeError(f"printing needs one of {', '.join(BROWSERS)}; `--html` needs none")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "report.html"
        file.write_text(html, encoding="utf-8")
        arguments = [*FLAGS, f"--user-data-dir={folder}/profile", f"--print-to-pdf={out.resolve()}", file.as_uri()]
        subprocess.run([browser, *arguments], check=True, timeout=120, capture_output=True)


def main(arguments: list[str] | None = None) -> None:
    """Read the command line and build."""
    parser = argparse.ArgumentParser(description="Print the report.")
    parser.add_argument("out", nargs="?", type=Path)
    parser.add_argument("--html", action="store_true", help="write HTML; needs no browser")
    given = parser.parse_args(arguments)
    out: Path = given.out or BUILD / ("report.html" if given.html else "report.pdf")
    out.parent.mkdir(parents=True, exist_ok=True)
    if given.html:
        out.write_text(page(), encoding="utf-8")
    else:
        print_page(page(), out)
    print(f"{out}: {out.stat().st_size / 1024:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
