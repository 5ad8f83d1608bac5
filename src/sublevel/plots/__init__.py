"""Figures of runs. They require matplotlib: `pip install 'sublevel[plot]'`.

>>> import sublevel as sl
>>> result = sl.minimize(lambda x: (x[0] - 1) ** 2 + 100 * x[1] ** 2, [0, 0], 0.5, rng=1)
>>> figure = result.plot("run.png")  # doctest: +SKIP
>>> figure = sl.plots.correlation(result, "correlation.png")  # doctest: +SKIP
"""

from sublevel.plots.run import animate, convergence, correlation

__all__ = ["animate", "convergence", "correlation"]
