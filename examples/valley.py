"""The picture of the README: a search distribution takes the shape of the valley it descends.

python examples/valley.py docs/pictures/valley.png
"""

from __future__ import annotations

import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np

import sublevel as sl

ANGLE = np.pi / 6
TURN = np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
HESSIAN = TURN @ np.diag([1.0, 60.0]) @ TURN.T
INK, WARM, COOL = "#22262b", "#c2410c", "#1f77b4"


def valley(points):
    """A function that is neither smooth nor convex; its sublevel sets are ellipses all the same."""
    return np.log1p(np.sqrt(np.einsum("...i,ij,...j->...", points, HESSIAN, points)))


def run(iterations):
    """(mean, covariance) of every generation."""
    optimizer = sl.Optimizer([-3.0, 1.0], 0.8, method=sl.ngd(c_cov=0.3), popsize=40, rng=4)
    path = [(optimizer.mean, optimizer.cov)]
    for _ in range(iterations):
        points = optimizer.ask()
        optimizer.tell(points, valley(points))
        path.append((optimizer.mean, optimizer.cov))
    return path


def draw_search(axes, path):
    grid = np.stack(np.meshgrid(np.linspace(-5, 2.4, 300), np.linspace(-2.6, 2.9, 240)), axis=-1)
    axes.contour(grid[..., 0], grid[..., 1], valley(grid), levels=14, colors="#b8c4cc", linewidths=0.7)
    circle = np.stack([np.cos(np.linspace(0, 2 * np.pi, 120)), np.sin(np.linspace(0, 2 * np.pi, 120))])
    shown = [0, 3, 6, 10, 15, 22]
    for shade, index in zip(np.linspace(0.35, 1.0, len(shown)), shown, strict=True):
        mean, cov = path[index]
        ellipse = mean[:, None] + 2 * np.linalg.cholesky(cov) @ circle
        axes.plot(*ellipse, color=WARM, alpha=shade, linewidth=1.6)
        axes.annotate(f"{index}", mean, color=INK, fontsize=8, ha="center", va="center")
    axes.set(aspect="equal", xticks=[], yticks=[], title="two standard deviations of the search,\nby generation")


def draw_condition(axes, path):
    condition = [np.linalg.cond(cov @ HESSIAN) for _, cov in path]
    axes.semilogy(condition, color=COOL, linewidth=2)
    axes.axhline(1, color=INK, linewidth=0.8, linestyle=":")
    axes.set(
        xlabel="generation", title="Cond(C·H): 1 means that the\ncovariance is the inverse Hessian", ylim=(0.8, None)
    )
    axes.spines[["top", "right"]].set_visible(False)


def main(target):
    path = run(60)
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), width_ratios=(1.5, 1), constrained_layout=True)
    draw_search(left, path)
    draw_condition(right, path)
    figure.savefig(target, dpi=130)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "valley.png")
