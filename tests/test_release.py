"""What a release consists of: its files, their metadata and size, and that they work in a new environment."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
import yaml

import sublevel

pytest.importorskip("hatchling")
ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
LARGEST_WHEEL = 1_000_000
RELATIVE = re.compile(r"\]\((?!https://)|(?:href|src)=\"(?!https://|#)")
SMOKE = """
import numpy as np, sublevel as sl
result = sl.minimize(lambda x: np.sum((x - 1) ** 2), np.zeros(3), 0.5, rng=1, store="run.db")
assert result.success and sl.load("run.db").result.fun == result.fun, result
assert np.allclose(sl.curvature(lambda x: np.sum((x - 1) ** 2), result).hessian, 2 * np.eye(3), atol=1e-3)
assert "site-packages" in sl.__file__, sl.__file__
"""


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The wheel and the source distribution."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    (wheel,), (source,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return wheel, source


@pytest.fixture(scope="module")
def metadata(files):
    with zipfile.ZipFile(files[0]) as wheel:
        (name,) = (name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return message_from_bytes(wheel.read(name))


# Versions.


def release_of_the_changelog(text):
    """Version and date of the latest release."""
    return re.search(r"^## \[(\d+\.\d+\.\d+)\] – (\d{4}-\d{2}-\d{2})$", text, re.MULTILINE).groups()


def test_all_files_name_the_same_release():
    version, date = release_of_the_changelog((ROOT / "CHANGELOG.md").read_text(encoding="utf-8"))
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    record = json.loads((ROOT / ".zenodo.json").read_text(encoding="utf-8"))
    assert (str(citation["version"]), str(citation["date-released"])) == (version, date)
    assert (record["version"], record["publication_date"]) == (version, date)
    assert record["license"] == citation["license"] == PROJECT["project"]["license"]
    own, _, development = sublevel.__version__.partition(".dev")
    assert own == version if not development else own.split(".") > version.split(".")


def test_the_tested_versions_are_those_that_are_declared():
    workflow = yaml.safe_load((ROOT / ".github/workflows/test.yml").read_text(encoding="utf-8"))
    matrix = workflow["jobs"]["test"]["strategy"]["matrix"]
    jobs = [{"os": os, "python": python} for os in matrix["os"] for python in matrix["python"]]
    jobs += [job for job in matrix["include"] if not job["experimental"]]
    classifiers = PROJECT["project"]["classifiers"]
    declared = {text.rpartition(" ")[2] for text in classifiers if re.search(r":: 3\.\d+$", text)}
    assert {job["python"] for job in jobs} == declared
    assert PROJECT["project"]["requires-python"] == f">={min(declared, key=lambda text: int(text[2:]))}"
    assert {job["os"] for job in jobs} == {"ubuntu-latest"}
    assert [text for text in classifiers if text.startswith("Operating")] == ["Operating System :: POSIX :: Linux"]
    assert {job["os"] for job in matrix["include"]} == {"ubuntu-latest", "macos-latest", "windows-latest"}


def test_the_oldest_dependencies_are_those_that_are_tested():
    pinned = dict(
        line.split("==") for line in (ROOT / "tests/oldest.txt").read_text().splitlines() if re.match(r"\w+==", line)
    )
    for dependency in PROJECT["project"]["dependencies"]:
        name, _, oldest = dependency.partition(">=")
        assert pinned[name].startswith(oldest)


@pytest.mark.parametrize("workflow", ["test.yml", "release.yml"])
def test_workflows_call_existing_targets_and_files(workflow):
    text = (ROOT / ".github/workflows" / workflow).read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):.*##", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    called = {name for line in re.findall(r"run: make (.*)", text) for name in line.split()}
    assert called
    assert called <= targets
    assert all((ROOT / file).is_file() for file in re.findall(r"tests/\w+\.\w+", text))


# Contents.


def test_the_wheel_has_the_package_and_nothing_else(files):
    wheel, _ = files
    assert wheel.stat().st_size <= LARGEST_WHEEL
    with zipfile.ZipFile(wheel) as content:
        names = set(content.namelist())
    own = {
        str(path.relative_to(ROOT / "src"))
        for path in (ROOT / "src" / "sublevel").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    other = {name for name in names - own if ".dist-info/" not in name}
    assert (own - names, other) == (set(), set())
    assert {"sublevel/py.typed", "sublevel/dashboard/assets/app.js"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_source_distribution_has_what_its_tests_need(files):
    with tarfile.open(files[1]) as content:
        names = {name.partition("/")[2] for name in content.getnames()}
    assert {"LICENSE", "README.md", "hatch_build.py", "Makefile", "tests/test_laws.py", "docs/conf.py"} <= names
    assert {"CITATION.cff", "CHANGELOG.md", "tests/oldest.txt", "docs/pictures/fit.png"} <= names
    assert not [name for name in names if name.startswith((".venv", "site/", "build/", "dist/"))]


def test_the_metadata_says_what_the_project_says(metadata):
    assert metadata["Name"] == "sublevel"
    assert metadata["Version"] == sublevel.__version__
    assert metadata["License-Expression"] == "BSD-3-Clause"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Summary"]


# The description.


def registry_text(readme):
    specification = importlib.util.spec_from_file_location("hatch_build", ROOT / "hatch_build.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module.registry_text(readme)


def test_the_description_has_only_links_that_a_registry_can_resolve(metadata):
    text = metadata.get_payload(decode=True).decode()
    prose = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert RELATIVE.findall(prose) == []
    assert "](https://arxiv.org/abs/1204.4141)" in prose
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert RELATIVE.search(readme)
    code = re.findall(r"^```.*?^```$", readme, re.MULTILINE | re.DOTALL)
    assert re.findall(r"^```.*?^```$", text, re.MULTILINE | re.DOTALL) == code


def test_links_of_a_clone_become_text():
    readme = "![a](b.png)\n\n[c](d.md), [e](https://f.org) and\n[g](#h)\n\n```python\nx[0](y)\n```\n"
    assert registry_text(readme) == "c, [e](https://f.org) and\n[g](#h)\n\n```python\nx[0](y)\n```\n"


def test_the_description_is_rendered(metadata):
    markdown = pytest.importorskip("readme_renderer.markdown")
    if not markdown.variants:
        pytest.skip("needs readme_renderer[md]")
    page = markdown.render(metadata.get_payload(decode=True).decode())
    assert page is not None
    assert RELATIVE.findall(page) == []
    assert page.count("<h2") == 3
    assert page.count("<table") == 1


# New environments.


@pytest.mark.slow
def test_twine_finds_nothing_to_complain_about(files):
    pytest.importorskip("twine")
    command = [sys.executable, "-m", "twine", "check", "--strict", *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout.count("PASSED")) == (0, 2), done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["wheel", "source distribution"])
def test_a_new_environment_can_use_it(files, kind, tmp_path):
    def run(*command):
        return subprocess.run(command, check=True, capture_output=True, text=True, cwd=tmp_path).stdout

    run(sys.executable, "-m", "venv", "new")
    python, command = tmp_path / "new/bin/python", tmp_path / "new/bin/sublevel"
    file = files[0 if kind == "wheel" else 1]
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", str(file))
    assert run(python, "-m", "pip", "--disable-pip-version-check", "check") == "No broken requirements found.\n"
    installed = json.loads(run(python, "-m", "pip", "list", "--format=json"))
    assert {one["name"] for one in installed} <= {"numpy", "scipy", "sublevel", "pip", "setuptools"}
    assert run(command, "--version") == f"sublevel {sublevel.__version__}\n"
    run(python, "-c", SMOKE)
    assert "run.db" in run(command, "runs", ".")
