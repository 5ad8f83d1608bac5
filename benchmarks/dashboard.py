"""How fast the dashboard is with many evaluations: at its server, and in a browser.

    OPENBLAS_NUM_THREADS=1 python benchmarks/dashboard.py [--evaluations 1000000] [--popsize 10 1000] [--folder DIR]

For each sample size a run of 10 variables is stored, with a vectorized objective. Then, in seconds:

1. server, wall and CPU: the first answer (a part of the evaluations is read), the answers until all are read, an
   answer that has nothing new, and one after 1000 further evaluations were written, of which only these are read.
2. Chromium, wall: from the request of the page to its first contentful paint, to the first drawing of the run, and
   until all evaluations are read; then, for an answer with 1000 further evaluations, from its arrival to the end of its
   drawing, and from its request to then. Updates are medians.
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
UPDATES = 5
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


def answer(server: Server, seen: str = "") -> tuple[np.ndarray, dict]:
    """Wall and CPU seconds and the content of an answer."""
    before = np.array([time.perf_counter(), time.process_time()])
    query = urllib.parse.urlencode({"run": 0, "seen": seen})
    with urllib.request.urlopen(f"{server.url}api/update?{query}") as response:
        text = response.read()
    return np.array([time.perf_counter(), time.process_time()]) - before, json.loads(text)["run"]


def serve(file: Path) -> Server:
    server = Server(Runs([file]))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def measure_server(file: Path) -> dict[str, np.ndarray]:
    """Wall and CPU seconds of the answers of the server."""
    server = serve(file)
    first, run = answer(server)
    total = first
    while run["read"] < 1:
        seconds, run = answer(server)
        total = total + seconds
    nothing, _ = answer(server, run["version"])
    later = []
    for _ in range(UPDATES):
        grow(file, 1000)
        seconds, run = answer(server, run["version"])
        later.append(seconds)
    server.shutdown()
    server.server_close()
    assert run["read"] == 1
    return {"first answer": first, "all read": total, "nothing new": nothing, "update": np.median(later, axis=0)}


def measure_browser(file: Path, profile: str) -> dict[str, np.ndarray]:
    """Wall seconds until the page is painted, and of an update."""
    server = serve(file)
    with Browser(profile) as browser:
        browser.page().open("about:blank")  # what the browser does once
        page = browser.page(1280, 900)
        page.send("Page.addScriptToEvaluateOnNewDocument", source=WATCH)
        page.open(server.url)
        drawn = page.wait("document.body?.dataset.nfev && performance.now()")
        everything = page.wait("document.getElementById('reading').className === 'done' && performance.now()", 120)
        paint = page.run(PAINT)
        updates = []
        for _ in range(UPDATES):
            time.sleep(0.5)
            page.run("times.length = 0")
            grow(file, 1000)
            updates.append(page.wait("times.at(-1)"))
    server.shutdown()
    server.server_close()
    draw, update = np.median(updates, axis=0)
    found = {"first paint": paint, "run drawn": drawn, "all read": everything, "drawing": draw, "update": update}
    return {name: np.array([milliseconds / 1e3]) for name, milliseconds in found.items()}


def shown(seconds: dict[str, np.ndarray]) -> str:
    """Figures in one line; CPU seconds in brackets."""
    texts = {name: f"{wall:.2f} s" + "".join(f" ({n:.2f})" for n in cpu) for name, (wall, *cpu) in seconds.items()}
    return ", ".join(f"{name} {text}" for name, text in texts.items())


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
                print(f"  {place}: {shown(seconds)}")


if __name__ == "__main__":
    main()
