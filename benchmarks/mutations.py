"""Which wrong changes of engine and theory do `sublevel verify` and the tests catch?

    OPENBLAS_NUM_THREADS=1 python benchmarks/mutations.py
    OPENBLAS_NUM_THREADS=1 python benchmarks/mutations.py --only volume --verify-only

Each mutation replaces one text, which occurs once in its file, in a temporary copy of the package. Then `verify`
is run, and the test files named beside the mutation, each up to the first failure. A crash and a run that takes too
long count as caught. Processes are forked, so that NumPy, SciPy and pytest are imported once (Linux and macOS).
`tests/test_mutations.py` checks that every text is still there.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NoReturn

for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(name, "1")

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 600
"""Time after which a run has failed."""

ORACLE, WEIGHTS, FAMILIES = "tests/test_oracle.py", "tests/test_weights.py", "tests/test_families.py"
ROOTS, RATES, THEORY = "tests/test_roots.py", "tests/test_family_rates.py", "tests/test_theory.py"
SAMPLING = "tests/test_sampling.py"
REFEREE, LAWS, CMA = "tests/test_referee.py", "tests/test_laws.py", "tests/test_cma.py"
CONSTRAINED = "tests/test_constrained_ordering.py"
PROJECTION, SPACE, MIXED = "tests/test_projection.py", "tests/test_space.py", "tests/test_mixed_family.py"
CURVATURE = "tests/test_curvature.py"


@dataclass(frozen=True, slots=True)
class Mutation:
    """A text of a file, what replaces it, what it breaks, and the tests that should notice."""

    file: str
    old: str
    new: str
    breaks: str
    tests: tuple[str, ...]


def _of(file: str, tests: tuple[str, ...], *changes: tuple[str, str, str]) -> list[Mutation]:
    return [Mutation(f"src/sublevel/{file}", old, new, breaks, tests) for old, new, breaks in changes]


MUTATIONS: list[Mutation] = [
    *_of(
        "engine/constants.py",
        (SAMPLING,),
        ("squares - 2 * pairs * (total * total - squares)", "squares - pairs * (total * total - squares)", "pairs"),
        ("return 2 * pairs / n * min(", "return pairs / n * min(", "share of pairs"),
        ("1 - (1 - PAIR_DAMPING) * share_of_pairs", "1 - PAIR_DAMPING * share_of_pairs", "damping of pairs"),
    ),
    *_of(
        "engine/linalg.py",
        (SAMPLING,),
        ("(vectors, vectors)), reflectors.diagonal())", "(vectors, vectors)), 1.0)", "signs of directions"),
        ("    lower /= np.sqrt(products.diagonal())\n", "", "lengths of orthogonal points"),
        ("failed or lower[-1, -1] < LEAST_SINE", "failed", "digits lost at small angles"),
    ),
    *_of(
        "engine/sampling.py",
        (SAMPLING,),
        ("return size // 2 if isinstance", "return size if isinstance", "pairs that are known"),
        (" and len(set(first)) == len(first)", "", "points at one place are pairs"),
    ),
    *_of(
        "engine/tangent.py",
        (SAMPLING,),
        ("mean[..., :pairs] -= self", "mean[..., :pairs] += self", "mean step of pairs"),
        ("cov[..., :pairs] += self", "cov[..., :pairs] -= self", "moment of pairs"),
    ),
    *_of(
        "engine/weights/volume.py",
        (ORACLE, WEIGHTS, REFEREE),
        ("total(cost) / size, 1)", "0.0 * total(cost), 1)", "no baseline, step 7"),
        ("total(cost) / size, 1)", "total(cost) / (size + 1), 1)", "baseline over n + 1"),
        ("constant(-1.0 / size)", "constant(1.0 / size)", "sign of the weights"),
        ("constant(-1.0 / size)", "constant(-1.0)", "weights without 1/n, step 8"),
        ("return 2.0 / d if self.exponent", "return 1.0 / d if self.exponent", "exponent 1/d"),
        ("2.0 / d if self", "1.0 if self", "no exponent, step 6 as printed"),
        ("    log_volume = ranks.equalize_ties(log_volume)\n", "", "tied points by their order"),
        ("after = -ranks.equalize_ties(-after)", "after = after * 1.0", "tied points, if one dominates"),
        ("    surprise = ranks.sort(surprise)\n", "", "volumes not in the order of f"),
        ("dominated = gap[..., 0] > -0.7", "dominated = gap[..., 0] > 0.7", "cancellation in small gaps"),
    ),
    *_of(
        "engine/families/protocol.py",
        (WEIGHTS, FAMILIES),
        ("return HALF * self.squares", "return 1.0 * self.squares", "1/p = exp(‖z‖²)"),
    ),
    *_of(
        "engine/ordering/ranks.py",
        (WEIGHTS, FAMILIES, ORACLE),
        ("last = np.where(self.tie_ends, ascending, np.inf)", "last = ascending", "ties are not shared"),
        ("last) if average_ties else by", "last) if not average_ties else by", "averaged ties exchanged"),
        ("values.argsort()  # along", "(-values).argsort()  # along", "maximises"),
        ("> ascending[..., :-1]\n", ">= ascending[..., :-1]\n", "ties are not seen"),
        ("/ (last + 1 - first)", "/ (last + 2 - first)", "average over one tie too many"),
        ("~self.tie_ends[..., :-1].any(axis=-1)", "~self.tie_ends[..., :-1].all(axis=-1)", "plateau if any tie"),
    ),
    *_of(
        "surrogate/control.py",
        ("tests/test_surrogate_control.py",),
        ("surrogate.agreement >= tuning.threshold", "surrogate.agreement >= 0.0", "injection by any model"),
        ("longest = sqrt(d) + 2 * d", "longest = 2 * sqrt(d) + 2 * d", "length of injected points"),
        ("allowance: float = 0.5", "allowance: float = 1.5", "models accepted whatever they predicted"),
        ("growth: float = 0.5", "growth: float = 1.0", "as many further evaluations as so far"),
        ("return theta.whiten(x if fold is None else fold.image(x, theta.mean))", "return theta.whiten(x)", "images"),
        ("fold.turns(theta.mean, old.mean)[:, None] * theta", "theta", "models that are not turned at a bound"),
        ("np.where(fails, np.inf, surrogate", "np.where(fails, -np.inf, surrogate", "expected failures first"),
        ("archive.take(archive.usable)", "archive", "models of failures"),
        ("inside = fold.clip(point, theta.mean)", "inside = point", "minimum beyond the bounds"),
    ),
    *_of(
        "engine/weights/active.py",
        (WEIGHTS,),
        ("attracting, average_ties=True", "attracting, average_ties=False", "ties of positive weights"),
        ("repelling, average_ties=True", "repelling, average_ties=False", "ties of negative weights"),
    ),
    *_of(
        "engine/transforms/step_size/tpa.py",
        ("tests/test_step_size.py",),
        ("/ (size - 1.0)", "/ size", "rank difference over n"),
        ("average / sqrt(d)", "average / d", "damping d for √d"),
    ),
    *_of(
        "run/restarts/bipop.py",
        ("tests/test_restarts.py",),
        ("rng.random() ** 2", "rng.random()", "sample sizes of small runs"),
        ("10.0 ** (-2.0 * rng", "10.0 ** (-rng", "steps of small runs"),
    ),
    *_of(
        "run/termination.py",
        ("tests/test_stop.py",),
        ("-(-30 * d // n)", "30 * d // n", "generations of equal values, rounded down"),
        ("recent[np.isnan(recent)] = np.inf", "recent[np.isnan(recent)] = -np.inf", "failures are best"),
        ("best[-(length // 2) :]", "best[-length:]", "a new best value in the first half of the window"),
    ),
    *_of(
        "engine/ordering/penalties.py",
        (CONSTRAINED,),
        ("0.5 * curvatures * effective", "curvatures * effective", "penalty µg² for µg²/2"),
        ("np.where(same, self.up**speed, 1", "np.where(same, self.up, 1", "no acceleration of the penalties"),
        ("factors * mean > -memory.multipliers)", "factors * mean > 0)", "penalties only grow where g > 0"),
        ("factors * mean / self.damping", "factors * mean", "multipliers without damping"),
    ),
    *_of(
        "engine/ordering/augmented_lagrangian.py",
        (CONSTRAINED,),
        (" / memory.dimension[..., None]", "", "initial penalty without 1/d"),
        ("IQR_OF_NORMAL = 1.349", "IQR_OF_NORMAL = 0.6745", "half the interquartile range"),
    ),
    *_of(
        "engine/ordering/rank_lagrangian.py",
        (CONSTRAINED,),
        ("np.maximum(after.factors, self.smallest_factor)", "after.factors", "penalties of ranks fall to 0"),
    ),
    *_of(
        "engine/ordering/constrained.py",
        (CONSTRAINED,),
        ("np.log(n // 2 + 0.5)", "np.log(n + 0.5)", "mean of the constraints over all points"),
    ),
    *_of(
        "engine/method.py",
        (REFEREE, FAMILIES, ORACLE, THEORY),
        ("cov, weighting.decay, images)", "cov, weighting.decay * 0.0, images)", "no decay of C"),
        (
            "Tangent(combination(weighting.mean, vectors)",
            "Tangent(0.5 * combination(weighting.mean, vectors)",
            "half δm",
        ),
    ),
    *_of(
        "engine/tangent.py",
        (REFEREE, FAMILIES, ORACLE, THEORY),
        ("maximum(-low, high) * self.rate", "-low * self.rate", "λ₁ for σ₁"),
        ("maximum(-low, high) * self.rate", "high * self.rate", "largest growth for σ₁"),
        ("maximum(-low, high) * self.rate", "(high - low) * self.rate", "spread of eigenvalues for σ₁"),
        ("maximum(-low, high) * self.rate", "maximum(-low, high)", "σ₁ without the rate"),
        ("return low - self.decay, high - self.decay", "return low, high", "σ₁ without the decay"),
        ("return (vectors.T * weights)", "return (vectors.T * np.abs(weights))", "weights without sign in δC"),
        ("        moment += (block", "        moment = (block", "only the last block of a large sample"),
        ("(mean, self.rate * cov, self.log_scale)", "(mean, cov, self.log_scale)", "rates do not multiply"),
        (
            "cls(weights, weights, total(weights))",
            "cls(weights, weights, total(weights) * 0.0)",
            "weights without decay",
        ),
        ("self._gram = gram(self.vectors)", "self._gram = 2.0 * gram(self.vectors)", "Gram matrix of few vectors"),
    ),
    *_of(
        "engine/transforms/rates.py",
        (REFEREE, ORACLE, RATES, THEORY),
        ("mean = self.c_mean * rate", "mean = 0.5 * self.c_mean * rate", "half η_m"),
        ("cov=0.5 * c_cov * rate)", "cov=c_cov * rate)", "η_C = c_C/σ₁"),
        ("reciprocal(tangent.spectral_norm), gen", "np.sqrt(reciprocal(tangent.spectral_norm)), gen", "1/√σ₁"),
        ("cov=memory.rate), memory", "cov=0.5 * memory.rate), memory", "half the rate of Hansen and Kern"),
        (
            "return tangent.scale(mean=np.float64(self.c_mean)",
            "return tangent.scale(mean=np.float64(0.5)",
            "η_m of rank-µ",
        ),
        ("effective_size(scheme_weights(self.scheme, sample_size))", "0.5 * sample_size", "µ_w = n/2"),
        ("hansen_kern_rate(theta.dimension, mu", "hansen_kern_rate(theta.dimension + 1, mu", "rate for d + 1"),
        ("float64(self.mean), cov=np.float64(self.cov)", "float64(self.cov), cov=np.float64(self.mean)", "η_m and η_C"),
    ),
    *_of(
        "engine/constants.py",
        (REFEREE, RATES, ORACLE),
        ("(2 * mu_eff - 1) / ((d + 2)", "(2 * mu_eff + 1) / ((d + 2)", "2µ_w + 1"),
        ("1) / ((d + 2) ** 2 + mu_eff)) if", "1) / ((d + 1) ** 2 + mu_eff)) if", "(d + 1)²"),
        ("1) / ((d + 2) ** 2 + mu_eff)) if", "1) / ((d + 2) ** 2 - mu_eff)) if", "(d + 2)² − µ_w"),
        ("rate = min(1.0, (2", "rate = min(2.0, (2", "rate above 1"),
        ("return max(0.1, min(0.1", "return max(0.2, min(0.1", "default c_C"),
    ),
    *_of(
        "engine/weights/quantile.py",
        (REFEREE, WEIGHTS, ORACLE),
        ("mu = int(self.fraction * size)", "mu = int(self.fraction * size) + 1", "one point more selected"),
        ("np.arange(size) < mu, 1.0", "np.arange(size) <= mu, 1.0", "µ + 1 points with the weight 1/µ"),
        ("np.arange(size) < mu, 1.0 / max(mu, 1)", "np.arange(size) < mu, 1.0 / size", "weights 1/n"),
        ("total = float(np.sum(np.square(weights)))", "total = float(np.sum(np.abs(weights)))", "µ_w = Σw"),
        ("np.log((size + 1) / 2) - np", "np.log(size + 1) - np", "log-linear weights for all points"),
    ),
    *_of(
        "engine/recipes.py",
        (REFEREE, FAMILIES, ORACLE, THEORY),
        ("SpectralRates(c_cov, 1.0 if", "SpectralRates(c_cov, 0.5 if", "η_m = 1/(2σ₁)"),
        ("rates, *_mean_factor(c_mean))", "rates)", "NGD without c_mean"),
        (
            "Truncation(0.25) if scheme is None else scheme\n    rates",
            "Truncation(0.5) if scheme is None else scheme\n    rates",
            "best half",
        ),
        ("(FixedRates(rate, 0.0),)", "(FixedRates(0.5 * rate, 0.0),)", "rate of PBIL"),
        ("Quantile(scheme), transforms", "Quantile(scheme, average_ties=True), transforms", "ties of rank-µ averaged"),
    ),
    *_of(
        "engine/families/full.py",
        (FAMILIES, ORACLE),
        ("multiply(mean, self.scale)", "multiply(mean, ONE)", "mean step without the scale"),
        ("definite & all_finite(mean), self", "all_finite(mean), self", "indefinite C accepted"),
        ("(covectors @ self.root)", "(covectors @ self.root.mT)", "pull by the transposed root"),
        (
            "z if half is None else half, self.root.mT",
            "z if half is None else half, self.root",
            "sample by the transposed root",
        ),
        ("self.dimension * LOG_2PI) - volume", "self.dimension * LOG_2PI) + volume", "sign of the volume in log p"),
        ("= 0.5 * kron", "= kron", "½ of eq:fisher"),
        ("(root @ part @ root.mT)", "(root.mT @ part @ root)", "velocity by the transposed root"),
        ("self.root @ self.root.mT, self.scale", "self.root.mT @ self.root, self.scale", "C = AᵀA"),
        ("1) * np.sqrt(np.vecdot(self.root, self.root))", "1) * np.vecdot(self.root, self.root)", "deviations squared"),
    ),
    *_of(
        "engine/families/roots.py",
        (ROOTS, FAMILIES, ORACLE),
        ("add_to_diagonal(matrix, 1.0 - rate", "add_to_diagonal(matrix, 1.0 + rate", "decay with the wrong sign"),
        (
            "    remainder = 1.0 - rate * cloud.decay",
            "    remainder = 1.0 - 0.0 * cloud.decay",
            "no decay for few vectors",
        ),
        ("middle = product(db, -0.5 * db.mT)", "middle = product(db, -0.25 * db.mT)", "root of a step of few vectors"),
        ("diagonal += 0.5 * weights", "diagonal += 0.25 * weights", "first order of that root"),
        ("SMALL_STEP = 0.0625", "SMALL_STEP = 4.0", "series beyond its range"),
        ("product(root, factor), ONE", "product(root, factor.T), ONE", "transposed Cholesky factor"),
    ),
    *_of(
        "engine/families/diagonal.py",
        (REFEREE, FAMILIES, THEORY),
        ("else 1.0 + relative\n", "else 1.0 + 0.5 * relative\n", "half δC of a diagonal C"),
        ("root = np.sqrt(np.maximum(growth, 0.0))", "root = np.maximum(growth, 0.0)", "deviations by variances"),
        ("precision, 0.5 * np.square(precision)", "precision, np.square(precision)", "½ of its Fisher matrix"),
        ("np.square(self.deviations) * change]", "self.deviations * change]", "velocity of variances"),
    ),
    *_of(
        "engine/families/isotropic.py",
        (REFEREE, FAMILIES, THEORY),
        (
            "            relative = tangent.rate * np.mean(",
            "            relative = tangent.rate * np.sum(",
            "tr(Z) for tr(Z)/d",
        ),
        ("0.5 * d * np.square(precision)", "0.5 * np.square(precision)", "d of its Fisher matrix"),
        ("expand_trailing(self.scale, 1) * tangent.mean\n", "tangent.mean\n", "mean step without the scale"),
    ),
    *_of(
        "engine/families/bernoulli.py",
        (REFEREE, FAMILIES, THEORY),
        ("mean = self.mean + self.velocity", "mean = self.mean - self.velocity", "PBIL away from the best"),
        ("return self.deviations * tangent.mean", "return tangent.mean", "PBIL in whitened units"),
        ("(1.0 / (self.mean * (1.0 - self.mean)))", "(self.mean * (1.0 - self.mean))", "inverse Fisher matrix"),
    ),
    *_of(
        "engine/method.py",
        (FAMILIES, ORACLE, LAWS),
        ("taken = move.usable & mask", "taken = move.usable", "a step on a plateau or without selection"),
        ("taken = move.usable & mask", "taken = mask & True", "unusable steps taken"),
    ),
    *_of(
        "run/projection.py",
        (PROJECTION,),
        ("np.where(scale, x, 1.0)[moved", "np.where(scale, 1.0, x)[moved", "units of log-scaled variables"),
        ("np.maximum(low, SCALE_RANGE[0])", "low", "log-scaled variables of any sign"),
        ("    if not usable.any() or not np", "    if not np", "constraints on variables that are not moved"),
    ),
    *_of(
        "run/resampling.py",
        (PROJECTION,),
        ("end + 0.5 * (z[rows] - end)", "0.5 * z[rows]", "halfway to the mean instead of the anchor"),
    ),
    *_of(
        "run/search_space.py",
        (SPACE,),
        ("return np.sqrt(np.clip(inward, 0.0, 1.0))", "return np.clip(inward, 0.0, 1.0)", "slope of the fold"),
    ),
    *_of(
        "run/integers.py",
        (MIXED,),
        ("before.mean + before.widening * step", "before.mean + step", "step of the mean of integers"),
    ),
    *_of(
        "paper/theory/quadratic.py",
        (REFEREE, THEORY),
        ("gammaln(0.5 * d + 1.0)", "gammaln(0.5 * d)", "volume of the ball"),
        ("return log_ball - np.sum", "return log_ball + np.sum", "det(A)^{+1/2}"),
        ("exponent = 2.0 / d if", "exponent = 1.0 / d if", "exponent of V"),
        ("return float(2.0 * np.exp(", "return float(np.exp(", "c without the 2 of the Fisher matrix"),
        (
            "np.linalg.norm(hessian_root, axis=-2)[..., None] * np",
            "np.linalg.norm(hessian_root, axis=-1)[..., None] * np",
            "diag(AAᵀ)",
        ),
        (
            "/ np.linalg.norm(hessian_root, axis=-2)",
            "/ np.square(np.linalg.norm(hessian_root, axis=-2))",
            "Ã by D⁻¹ twice",
        ),
        ("np.geomspace(1.0, sqrt(condition), d)", "np.geomspace(1.0, condition, d)", "Cond(A) squared"),
    ),
    *_of(
        "paper/theory/exact.py",
        (REFEREE, THEORY),
        ("mean=-combination(gradient", "mean=combination(gradient", "uphill"),
        ("mean=-combination(gradient", "mean=-0.5 * combination(gradient", "half CAm"),
        ("cov=self.cov / norm), memory", "cov=0.5 * self.cov / norm), memory", "α/2"),
        ("else constant * np.square(unit)", "else constant * unit", "unit of the exact gradient"),
        ("np.full(vectors.shape[:-1], -1.0)", "np.full(vectors.shape[:-1], -0.5)", "half CAC"),
    ),
    *_of(
        "paper/theory/curves.py",
        (REFEREE, THEORY),
        ("* excess + 1.0 - 2.0 * alpha)", "* excess + 1.0 - alpha)", "eq:cond-sp near 1"),
        ("/ (excess + 1.0 - alpha)", "/ (excess + 1.0)", "eq:cond-sp, denominator"),
        ("* (1.0 - gamma) ** np", "* (1.0 - 2.0 * gamma) ** np", "eq:upper-cond"),
        ("* (1.0 - gamma) ** np", "* (1.0 - 0.5 * gamma) ** np", "eq:upper-cond, too weak"),
        ("return (1.0 - 2.0 * gamma) / (1.0 - gamma)", "return 1.0 - gamma", "eq:rate-cond"),
        ("    return 1.0 - gamma\n", "    return 1.0 - 2.0 * gamma\n", "eq:rate-k"),
        ("(1.0 - alpha * relative) / (1.0 - alpha)", "(1.0 - alpha * relative)", "relative eigenvalues of curves"),
        ("y = y * (1.0 - alpha_mean * relative)", "y = y * (1.0 - alpha * relative)", "mean of predicted curves"),
        ('targets, dtype=np.float64), side="right")', 'targets, dtype=np.float64), side="left")', "first times"),
    ),
    *_of(
        "paper/theory/restricted.py",
        (REFEREE, THEORY),
        ("1.0 - alpha * spectrum / spectrum[0]", "1.0 - alpha * spectrum / np.mean(spectrum)", "modes by the mean"),
        ("np.mean(spectrum) / spectrum[0])", "spectrum[-1] / spectrum[0])", "rate of v by the smallest a"),
        ("max(np.square(slowest), var", "max(slowest, var", "rate of J by ‖m‖"),
        ("max(np.square(slowest), var", "min(np.square(slowest), var", "rate of J by the faster part"),
        ("alpha / hessian_spectrum(normalised_root(hessian_root))[0])", "alpha / hessian_root.shape[-1])", "γ = α/d"),
    ),
    *_of(
        "paper/theory/measure.py",
        (REFEREE, THEORY),
        (
            "return np.square(singular[..., 0] / singular[..., -1])",
            "return singular[..., 0] / singular[..., -1]",
            "√Cond",
        ),
        ("norm(root @ root.mT, axis=(-2, -1))", "norm(root @ root.mT, 2, axis=(-2, -1))", "spectral norm of C"),
        ("norm(direction, axis=-1)", "norm(direction, 1, axis=-1)", "1-norm of m"),
        ("np.square(distance_unit / unit) * np", "0.5 * np.square(distance_unit / unit) * np", "half mᵀAm in J"),
        ("return np.log(total) + 2.0 * np.log(unit)", "return np.log(total) + np.log(unit)", "scale of log J"),
    ),
    *_of(
        "paper/theory/sampled.py",
        (REFEREE, THEORY),
        ("return -min(0.5, 1.0 / condition)", "return -min(0.5, 2.0 / condition)", "exponent 2/κ"),
        ("return -min(0.5, 1.0 / condition)", "return -0.5", "n^(−1/2) at every κ"),
        ("largest = np.exp((2.0 / theta.dimension", "largest = np.exp((1.0 / theta.dimension", "unit of V̂"),
    ),
    *_of(
        "paper/theory/estimate_variance.py",
        ("tests/test_estimate_variance.py", REFEREE),
        ("even + odd, odd - even", "even + odd, even - odd", "sign of a mirrored point in the mean"),
        ("even + odd, even - odd", "even + odd, odd - even", "sign of a mirrored point in the covariance"),
        ("+ pairs.orthogonal * orthogonal)", ")", "no covariance of orthogonal points"),
        ("count * (count - 1) for count", "count for count", "all points in pairs"),
        ("-second_part / (d - 1) +", "-second_part / d +", "P₂(0) for independent directions"),
        ("3.0 * (d * (d + 2)) ** 2", "(d * (d + 2)) ** 2", "P₄(0) without its factor"),
        ("4.0 * d * (d + 2) / (d + 4) * joint", "4.0 * d * joint", "product of two forms of degree 2"),
        (
            "16.0 * _products(matrix @ directions",
            "8.0 * _products(matrix @ directions",
            "tr AMAN of the fourth cumulant",
        ),
    ),
    *_of(
        "paper/theory/remarks.py",
        (REFEREE,),
        ("gammainc(d / 2 + 1, quartile / 2)", "gammainc(d / 2, quartile / 2)", "F_d for F_{d+2}"),
        ("gammaincinv(d / 2, 0.25)", "gammaincinv(d / 2, 0.5)", "median for the quartile"),
    ),
    *_of(
        "hessian/estimate.py",
        (CURVATURE,),
        ("int(np.count_nonzero(self.free))", "self.free.size", "degrees of freedom that count held variables"),
    ),
    *_of(
        "rank_shape/average.py",
        ("tests/test_shape_from_ranks.py",),
        ("0.5 * (k - 1) * (k + 2)", "0.5 * k * (k + 1)", "trace counted as a component"),
        ("/ (1.0 - share)  # of", "/ 1.0  # of", "variance about the subtracted mean"),
        ("components * count * (1.0 - phi)", "count * (1.0 - phi)", "degrees of freedom of one component"),
    ),
    *_of(
        "store/pending.py",
        ("tests/test_store_samples.py",),
        (
            "return self.after is None if before is None else is_same_state(before, self.after)",
            "return True",
            "row goes on",
        ),
    ),
    *_of(
        "store/recorder.py",
        ("tests/test_store_samples.py",),
        ("is_shared = self._is_drawn and not done.owns_generator", "is_shared = False", "no state after a sample"),
    ),
]
"""Wrong changes, file by file."""


def copy_package(directory: Path) -> None:
    """Copy the package and its tests."""
    ignore = shutil.ignore_patterns("__pycache__")
    for name in ("src", "tests", "benchmarks"):
        shutil.copytree(ROOT / name, directory / name, ignore=ignore)
    shutil.copy(ROOT / "pyproject.toml", directory)
    compileall.compile_dir(directory / "src", quiet=2)


def fails(directory: Path, command: Callable[[], int]) -> bool:
    """Whether a command fails in a new process that sees the package of the copy."""
    pid = os.fork()
    if pid == 0:
        _run_and_exit(directory, command)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return status != 0
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return True


def _run_and_exit(directory: Path, command: Callable[[], int]) -> NoReturn:
    """Run a command in the copy without output, and end the process."""
    status = 1
    try:
        silence = os.open(os.devnull, os.O_WRONLY)
        os.dup2(silence, 1)
        os.dup2(silence, 2)
        os.chdir(directory)
        sys.path[:0] = [str(directory / "src"), str(directory / "tests")]
        sys.dont_write_bytecode = True
        status = command()
    finally:
        os._exit(status)


def import_libraries() -> None:
    """Import what all runs need, but nothing of the package."""
    for module in ("hypothesis", "matplotlib.figure", "mpmath", "numpy", "pytest", "scipy.linalg", "scipy.stats"):
        importlib.import_module(module)


def run_verify() -> int:
    """1 as soon as a row of `verify` fails."""
    verify = importlib.import_module("sublevel.paper.theory.verify")
    return int(not all(report.passed for report in verify.iterate_checks()))


def run_tests(tests: tuple[str, ...]) -> int:
    """1 as soon as a test of these files fails."""
    pytest = importlib.import_module("pytest")
    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
    loaded = ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # for Hypothesis, which is imported already
    return int(pytest.main([*options, *loaded, *tests]) != 0)


def try_mutation(directory: Path, mutation: Mutation, verify_only: bool) -> tuple[bool, bool | None]:
    """Whether `verify` and the tests catch a mutation; None if the tests were not run."""
    path = directory / mutation.file
    before, status = path.read_text(), path.stat()
    path.write_text(before.replace(mutation.old, mutation.new))
    try:
        by_verify = fails(directory, run_verify)
        if verify_only:
            return by_verify, None
        return by_verify, any(fails(directory, partial(run_tests, (test,))) for test in mutation.tests)
    finally:
        path.write_text(before)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # so that its compiled file is used again


def main() -> None:
    """Try all mutations, or some, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="mutations whose file or description contains this text")
    parser.add_argument("--sample", type=int, help="a random part of these; another one with every call")
    parser.add_argument("--verify-only", action="store_true", help="do not run the tests")
    given = parser.parse_args()
    chosen = [one for one in MUTATIONS if given.only in one.file or given.only in one.breaks]
    if given.sample is not None:
        chosen = random.sample(chosen, min(given.sample, len(chosen)))
    caught: list[tuple[bool, bool | None]] = []
    begin = time.monotonic()
    import_libraries()
    with tempfile.TemporaryDirectory() as name:
        copy_package(Path(name))
        if fails(Path(name), run_verify):
            raise SystemExit("`sublevel verify` fails without a mutation.")
        tests = tuple(sorted({test for one in chosen for test in one.tests}))
        if not given.verify_only and fails(Path(name), partial(run_tests, tests)):
            raise SystemExit("The tests fail without a mutation.")
        for one in chosen:
            caught.append(try_mutation(Path(name), one, given.verify_only))
            by_verify, by_tests = ("–" if found is None else "caught" if found else "MISSED" for found in caught[-1])
            print(f"{by_verify:8}{by_tests:8}{one.file.removeprefix('src/sublevel/'):32}{one.breaks}", flush=True)
    verified, tested = (sum(bool(pair[part]) for pair in caught) for part in (0, 1))
    text = f"{len(chosen)} mutations: verify catches {verified} ({100 * verified / max(1, len(chosen)):.0f} %)"
    print(text + ("" if given.verify_only else f", tests {tested} ({100 * tested / max(1, len(chosen)):.0f} %)"))
    print(f"{time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
