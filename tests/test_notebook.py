"""In a notebook, with a real kernel: every picture is shown, and once."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")
pytest.importorskip("matplotlib")

CELLS = [
    "import sublevel as sl\nresult = sl.minimize(lambda x: x @ x, [1.0, 2.0], 0.5, rng=1, maxiter=5)",
    "result.plot();",
    "result.plot()",
    "import matplotlib.pyplot as plt\nplt.plot([1, 2]);",
    "figure = result.plot()",
    "figure",
    "sl.curvature(lambda x: x @ x, result).plot()",
    "result",
]


@pytest.fixture(scope="module")
def outputs():
    """What each cell shows: the kinds of its outputs."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in CELLS])
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("MPLBACKEND", raising=False)  # a kernel shows pictures by a backend of its own
        nbclient.NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    return [[{*output.get("data", {"text": None})} for output in cell.outputs] for cell in notebook.cells]


def pictures(shown):
    return sum("image/png" in kinds for kinds in shown)


def test_every_picture_is_shown_once(outputs):
    assert [pictures(shown) for shown in outputs] == [0, 1, 1, 1, 1, 1, 1, 0]
    assert all(len(shown) == 1 for shown in outputs[1:])


def test_a_result_is_shown_as_html(outputs):
    assert outputs[-1] == [{"text/html", "text/plain"}]
