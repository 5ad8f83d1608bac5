"""Check the pages that `make docs` has built: every link leads somewhere, and nothing is fetched from elsewhere.

    python docs/check_site.py site

Files, images and anchors of the site must exist. Links to other sites are checked for their form only, as the check
needs no network. Exit status 1 if there are problems; each is printed on a line.
"""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADS = frozenset({"src", "srcset", "poster", "data"})  # attributes whose addresses a browser loads by itself
NAVIGATES = frozenset({"next", "prev", "index", "search", "canonical"})  # what <link> names without loading it
ADDRESS = re.compile(r"https://([a-z0-9-]+\.)+[a-z]{2,}(/[^\s<>\"{}|\\^`]*)?")
CSS_ADDRESS = re.compile(r"url\(\s*[\"']?([^\"')]+)|@import\s+[\"']([^\"']+)")


class Page(HTMLParser):
    """The anchors of a page, the addresses that it links to, and those that it loads."""

    def __init__(self) -> None:
        """Begin with nothing."""
        super().__init__(convert_charrefs=True)
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loads: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the addresses and anchors of a tag."""
        given = {name: text for name, text in attrs if text}
        self.anchors.update(given[name] for name in ("id", "name") if name in given and (name == "id" or tag == "a"))
        for name, text in given.items():
            if name == "srcset":
                self.loads += [part.split()[0] for part in text.split(",") if part.split()]
            elif name in LOADS:
                self.loads.append(text)
            elif name == "href":
                loaded = tag == "link" and not NAVIGATES.intersection(given.get("rel", "").split())
                (self.loads if loaded or tag in ("image", "use") else self.links).append(text)
            elif name == "style":
                self.loads += css_addresses(text)


def css_addresses(text: str) -> list[str]:
    """The addresses that a style sheet loads."""
    return [first or second for first, second in CSS_ADDRESS.findall(text)]


def read_pages(site: Path) -> dict[Path, Page]:
    """All pages of a site; the templates of the theme among its static files are none."""
    pages: dict[Path, Page] = {}
    for file in sorted(site.rglob("*.html")):
        if "_static" not in file.relative_to(site).parts:
            pages[file.resolve()] = page = Page()
            page.feed(file.read_text(encoding="utf-8"))
    return pages


def link_problem(address: str, file: Path, pages: dict[Path, Page], site: Path) -> str | None:
    """What is wrong with a link of a page, or None."""
    parts = urlsplit(address)
    if parts.scheme or parts.netloc:
        return None if ADDRESS.fullmatch(address) or parts.scheme in ("mailto", "data") else "malformed address"
    target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
    if target.is_dir():
        return "link to a directory, which has no page when read from disk"
    if not target.is_file():
        return "no such file"
    if not target.is_relative_to(site):
        return "file outside of the site"
    if parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
        return "no such anchor"
    return None


def load_problem(address: str, file: Path, pages: dict[Path, Page], site: Path) -> str | None:
    """What is wrong with an address that a browser loads, or None."""
    parts = urlsplit(address)
    if parts.scheme == "data":
        return None
    if parts.scheme or parts.netloc:
        return "loaded from another site"
    return link_problem(address, file, pages, site) if parts.path else None


def problems(site: Path) -> list[str]:
    """Lines `page: address: what is wrong`."""
    site = site.resolve()
    pages = read_pages(site)
    found = [] if pages else [f"{site.name}: no pages"]
    for file, page in pages.items():
        checked = [(address, link_problem(address, file, pages, site)) for address in page.links]
        checked += [(address, load_problem(address, file, pages, site)) for address in page.loads]
        found += [f"{file.relative_to(site)}: {address}: {wrong}" for address, wrong in checked if wrong]
    for file in sorted(site.rglob("*.css")):
        for address in css_addresses(file.read_text(encoding="utf-8")):
            if wrong := load_problem(address, file.resolve(), pages, site):
                found.append(f"{file.relative_to(site)}: {address}: {wrong}")
    return found


def main(folder: str) -> int:
    """Print the problems of a site."""
    site = Path(folder)
    found = problems(site)
    print(*found, sep="\n", file=sys.stderr, end="\n" if found else "")
    if not found:
        pages = read_pages(site.resolve()).values()
        links = sum(len(page.links) + len(page.loads) for page in pages)
        print(f"{len(pages)} pages, {links} links and files: all there, nothing loaded from another site.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
