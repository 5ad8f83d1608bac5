"""Draw the picture of the dashboard: three stored runs of a fit, in Chromium.

python docs/pictures/dashboard.py docs/pictures/dashboard.png
"""

from __future__ import annotations

import sys
import tempfile
import threading
from pathlib import Path

import numpy as np

import sublevel as sl
from sublevel.dashboard.runs import Runs
from sublevel.dashboard.server import Server

sys.path.insert(0, str(Path(__file__).parents[2] / "tests"))

from helpers.browser import Browser

NAMES = ["amplitude", "decay rate", "offset", "phase"]
WIDTH, HEIGHT = 1165, 1330
t = np.linspace(0, 4, 60)


def model(x: np.ndarray) -> np.ndarray:
    """A damped oscillation."""
    amplitude, rate, offset, phase = x
    if rate < 0:
        raise ValueError("the decay rate is negative")
    return amplitude * np.exp(-rate * t) * np.cos(4 * t + phase) + offset


data = model(np.array([3.0, 0.8, 0.4, 0.1])) + np.random.default_rng(0).normal(0, 0.1, t.size)


def chi_square(x: np.ndarray) -> float:
    """The cost of the fit."""
    return float(np.sum(((model(x) - data) / 0.1) ** 2))


def store_runs(folder: Path) -> None:
    """Three runs with one restart each, and other random numbers."""
    for seed in (1, 2, 3):
        settings = {"names": NAMES, "rng": seed, "on_error": "nan", "restarts": 1}
        sl.minimize(chi_square, np.ones(4), 0.5, store=folder / f"fit-{seed}.db", **settings)


def main(out: Path) -> None:
    """Store, serve, and take the picture."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store_runs(folder)
        server = Server(Runs([folder]))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        with Browser(folder / "profile") as browser:
            page = browser.page(WIDTH, HEIGHT)
            page.send("Emulation.setScrollbarsHidden", hidden=True)
            page.open(server.url)
            page.wait("document.getElementById('reading')?.className === 'done'", 120)
            page.wait("document.querySelectorAll('#chart-compare svg path, #chart-compare canvas').length")
            page.run("new Promise(done => setTimeout(done, 3000))")  # until the second answer is drawn
            page.screenshot(out, whole=False)
        server.shutdown()
        server.server_close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
