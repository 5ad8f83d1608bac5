"""How fast the dashboard is with many evaluations: at its server, and in a browser.

    OPENBLAS_NUM_THREADS=1 python benchmarks/dashboard.py [--evaluations 1000000] [--popsize 10 1000] [--folder DIR]

For each sample size a run of 10 variables is stored, with a vectorized objective. Then, in seconds:

1. server: the first answer (a part of the evaluations is read), the answer after which all are read, an answer that has
   nothing new, and the answer after 1000 further evaluations were written, of which only these are read.
2. Chromium: from the request of the page to its first contentful paint, to the first drawing of the run, and until all
   evaluations are read; then the time from the arrival of an answer with new evaluations to the end of its drawing, and
   from the request to then.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import threading
import time
import urllib.parse
import urllib.request
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import numpy as np

import sublevel as sl
from helpers.browser import BROWSER, Browser
from sublevel.dashboard.runs import Runs
from sublevel.dashboard.server import Server

WEIGHTS = np.logspace(0, 4, 10)
PAINT = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
WATCH = """(() => { const fetchNow = window.fetch; window.times = [];
window.fetch = async (...given) => { const began = performance.now(); const response = await fetchNow(...given);
  const read = response.json.bind(response);
  response.json = async () => { const content = await read(), arrived = performance.now();
    setTimeout(() => requestAnimationFrame(() => setTimeout(() => {
      if (content.run && content.run.totals) times.push([performance.now() - arrived, performance.now() - began]); })));
    return content; };
  return response; }; })()"""


def objective(points: np.ndarray) -> np.ndarray:
    return np.sum(WEIGHTS * (points - 0.3) ** 2, axis=-1)


def make_run(file: Path, popsize: int, evaluations: int) -> None:
    """Store a run, unless it is there."""
    settings = {"rng": 1, "popsize": popsize, "vectorized": True, "ftarget": -1.0, "restarts": sl.IPOP(10**6, 1.0)}
    if not file.exists():
        sl.minimize(objective, np.ones(10), 0.5, maxfevals=evaluations, store=file, **settings)


def grow(file: Path, evaluations: int) -> None:
    """Write further evaluations."""
    sl.resume(file, objective, maxfevals=sl.load(file).result.nfev + evaluations, check=False)


def answer(server: Server, seen: str = "") -> tuple[float, dict]:
    """Seconds and content of an answer."""
    began = time.perf_counter()
    query = urllib.parse.urlencode({"run": 0, "seen": seen})
    with urllib.request.urlopen(f"{server.url}api/update?{query}") as response:
        content = json.load(response)
    return time.perf_counter() - began, content["run"]


def serve(file: Path) -> Server:
    server = Server(Runs([file]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def measure_server(file: Path) -> dict[str, float]:
    """Seconds of the answers of the server."""
    server = serve(file)
    first, run = answer(server)
    total = first
    while run["read"] < 1:
        seconds, run = answer(server)
        total += seconds
    nothing, _ = answer(server, run["version"])
    grow(file, 1000)
    later, run = answer(server, run["version"])
    server.shutdown()
    server.server_close()
    assert run["read"] == 1
    return {"first answer": first, "all read": total, "nothing new": nothing, "1000 evaluations more": later}


def measure_browser(file: Path, profile: str) -> dict[str, float]:
    """Seconds until the page is painted, and of an update."""
    server = serve(file)
    with Browser(profile) as browser:
        warm = browser.page()
        warm.open("about:blank")
        page = browser.page(1280, 900)
        page.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        page.open(server.url)
        drawn = page.wait("document.body?.dataset.nfev && performance.now()")
        everything = page.wait("document.getElementById('reading').className === 'done' && performance.now()", 120)
        paint = page.run(PAINT)
        page.wait("times.length > 0")
        page.run("times.length = 0")
        grow(file, 1000)
        draw, update = page.wait("times.at(-1)")
    server.shutdown()
    server.server_close()
    found = {"first paint": paint, "run drawn": drawn, "all read": everything, "drawing": draw, "update": update}
    return {name: milliseconds / 1e3 for name, milliseconds in found.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluations", type=int, default=10**6)
    parser.add_argument("--popsize", type=int, nargs="+", default=[10, 1000])
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        for popsize in given.popsize:
            file = folder / f"{popsize}-{given.evaluations}.db"
            make_run(file, popsize, given.evaluations)
            print(
                f"{given.evaluations} evaluations, {popsize} points per generation, {file.stat().st_size / 1e6:.0f} MB"
            )
            figures = {"server": measure_server(file)}
            if BROWSER is not None:
                figures["Chromium"] = measure_browser(file, f"{temporary}/profile-{popsize}")
            for place, seconds in figures.items():
                print(f"  {place}: " + ", ".join(f"{name} {number:.2f} s" for name, number in seconds.items()))


if __name__ == "__main__":
    main()
