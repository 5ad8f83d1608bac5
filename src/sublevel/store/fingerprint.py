"""The fingerprint of a stored run: equal for runs with the same evaluations and the same state."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path

import numpy as np

from sublevel.store.file import NUMBERS
from sublevel.store.load import sketch_optimizer
from sublevel.store.reader import open_run
from sublevel.store.samples import SampleForm, StoredPoints, checksum


def fingerprint(path: Path) -> str:
    """SHA-256 of the outcome of a run. Times, settings, the division into rows, and whether points are stored or drawn
    again, do not count.
    """
    digest, keys, values, sums = sha256(), sha256(), sha256(), dict[int, int]()
    with open_run(path) as reading:
        file = reading.file
        is_noisy = file.part("configuration")[0].get("noise") is True
        for name in ("checkpoint", "memory", *(("reevaluations",) if is_noisy else ())):
            facts, layout, data = file.part(name)
            digest.update(repr(sorted(facts.items())).encode() + layout.encode() + data)
        for iteration, run, popsize, numbers in file.rows("generations", "ORDER BY iteration"):
            for k, begin in enumerate(range(0, len(numbers), 8 * NUMBERS)):
                digest.update(repr((iteration + k, run, popsize)).encode() + numbers[begin : begin + 8 * (NUMBERS - 1)])
        for table, order in (("restarts", "number"), ("snapshots", "nfev")):
            for row in file.rows(table, f"ORDER BY {order}"):
                columns = [sha256(column).digest() if type(column) is bytes else column for column in row]
                digest.update(repr(columns).encode())
        for stretch in StoredPoints(file, SampleForm.of(sketch_optimizer(reading))).stretches():
            table = np.empty((len(stretch.values), 3), dtype=np.int64)
            table[:] = stretch.run, stretch.iteration, stretch.place
            table[:, 2] += np.arange(len(table))
            keys.update(table.tobytes())
            points = stretch.kept if len(stretch.kept) else stretch.points
            sums[stretch.iteration] = sums.get(stretch.iteration, 0) ^ int(checksum(points))
            values.update(stretch.values.tobytes())
    for part in (keys, sha256(repr(sorted(sums.items())).encode()), values):
        digest.update(part.digest())
    return digest.hexdigest()
