"""What the documentation shows runs as it stands: the Python blocks of README.md and docs/*.md, and the examples in
docstrings.
"""

from __future__ import annotations

import doctest
import importlib
import inspect
import pkgutil
import re
import runpy
import textwrap
from pathlib import Path

import pytest

import sublevel
from sublevel.run.termination import KINDS, SUCCESSES

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
MODULES = [
    module.name
    for module in pkgutil.walk_packages(sublevel.__path__, "sublevel.")
    if not module.name.endswith("__main__")
]
BLOCK = re.compile(
    r"(?P<skip>^[ \t]*<!-- not run -->[ \t]*\n\s*)?^(?P<indent>[ \t]*)```python[^\n]*\n(?P<code>.*?)^(?P=indent)```[ "
    r"\t]*$",
    re.MULTILINE | re.DOTALL,
)


def blocks(text):
    """The fenced Python blocks of a page, each with its first line's number; those after `<!-- not run -->` are left
    out.
    """
    for match in BLOCK.finditer(text):
        if not match["skip"]:
            yield text.count("\n", 0, match.start("code")) + 1, textwrap.dedent(match["code"])


def with_blocks(pages):
    return [page for page in pages if page.exists() and any(blocks(page.read_text(encoding="utf-8")))]


@pytest.mark.parametrize("page", with_blocks(PAGES), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_blocks_of_a_page_run_one_after_the_other(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    namespace = {"__name__": "__main__"}
    for line, code in blocks(page.read_text(encoding="utf-8")):
        exec(compile("\n" * (line - 1) + code, str(page), "exec", dont_inherit=True), namespace)


def test_the_first_block_of_the_readme_can_be_imported(tmp_path):
    """The shell command below it, and worker processes, import the objective from a file `fit.py`."""
    _, code = next(blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    (tmp_path / "fit.py").write_text(code, encoding="utf-8")
    imported = runpy.run_path(str(tmp_path / "fit.py"), run_name="fit")
    assert imported["squares"]([0.4, 0.1, 5]) > 0
    assert "fit" not in imported


@pytest.mark.parametrize("name", ["sublevel", *MODULES])
def test_the_examples_of_a_module_are_true(name):
    try:
        module = importlib.import_module(name)
    except ModuleNotFoundError as missing:
        if (missing.name or "").startswith("sublevel"):
            raise
        pytest.skip(f"needs {missing.name}")
    result = doctest.testmod(module, optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    assert result.failed == 0


def test_everything_public_has_a_docstring():
    """Ruff asks for those of modules, classes and functions, but not of methods."""
    lacking = []
    for name in set(sublevel.__all__) - {"plots"}:
        public = getattr(sublevel, name)
        members = vars(public).items() if inspect.isclass(public) else ()
        described = [(name, public), *((f"{name}.{own}", found) for own, found in members if not own.startswith("_"))]
        lacking += [
            label
            for label, found in described
            if (callable(found) or isinstance(found, property | classmethod | staticmethod))
            and not inspect.getdoc(found)
        ]
    assert lacking == []


@pytest.mark.parametrize("name", ["optimizer", "minimize", "history"])
def test_there_are_examples_where_users_look(name):
    module = importlib.import_module(f"sublevel.run.{name}")
    assert sum(len(test.examples) for test in doctest.DocTestFinder().find(module)) > 0


def test_the_page_on_stopping_has_every_reason():
    text = (ROOT / "docs" / "stopping.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \| (\d+) \| (yes|no) \|", text, re.MULTILINE)
    known = {name: (str(kind.status), "yes" if name in SUCCESSES else "no") for name, kind in KINDS.items()}
    assert {name: (status, success) for name, status, success in rows} == known
    assert len(rows) == len(known)


def test_blocks_are_found_and_left_out_as_told():
    page = """
```python
a = 1
```
text
```bash
rm -rf /
```
<!-- not run -->
```python
raise SystemExit
```

<!-- not run -->

```python
raise SystemExit
```
- a list
  ```python
  b = a
  ```
"""
    assert list(blocks(page)) == [(3, "a = 1\n"), (21, "b = a\n")]
