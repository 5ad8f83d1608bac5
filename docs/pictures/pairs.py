"""Draw pairs.png of docs/methods.md: eight independent points in the plane, and eight made of mirrored pairs.

    python docs/pictures/pairs.py

Both samples have lengths from the same distribution. Of the pairs, two by two are orthogonal.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib.patches import Circle

from sublevel.engine.sampling import SAMPLINGS
from sublevel.paper.drawing import empty_figure, tidy
from sublevel.plots.style import BLUE, FAINT, INK, ORANGE, STYLE

POINTS, SEED, REACH = 8, 12, 3.1
NAMES = "independent", "mirrored-orthogonal"


def main() -> None:
    """Write the picture."""
    with mpl.rc_context(STYLE):
        figure = empty_figure((7.2, 3.5))
        for axis, name in zip(figure.subplots(1, 2), NAMES, strict=True):
            z = SAMPLINGS[name].draw(np.random.default_rng(SEED), (POINTS, 2))
            tidy(axis, name)
            axis.set(xlim=(-REACH, REACH), ylim=(-REACH, REACH), aspect="equal")
            axis.set_axis_off()
            for radius in (1.0, 2.0, 3.0):
                axis.add_patch(Circle((0, 0), radius, fill=False, color=FAINT, lw=0.7, alpha=0.5))
            if name == "independent":
                axis.scatter(*z.T, s=34, color=BLUE, zorder=3)
            else:
                for pair in range(POINTS // 2):
                    colour = (BLUE, ORANGE)[pair // 2]
                    axis.plot(*z[2 * pair : 2 * pair + 2].T, color=colour, lw=1.4, marker="o", ms=5.8, zorder=3)
            axis.plot(0, 0, marker="+", color=INK, ms=9, mew=1.5, zorder=4)
        figure.savefig(Path(__file__).with_suffix(".png"), dpi=160)


if __name__ == "__main__":
    main()
