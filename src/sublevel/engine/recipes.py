"""Search methods as combinations of parts."""

from __future__ import annotations

from dataclasses import replace

from sublevel.engine.families import Bernoulli, Family, FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.sampling import SAMPLINGS
from sublevel.engine.transforms import (
    STEP_SIZES,
    AdaptiveRates,
    ConstantVolume,
    Cumulation,
    DecreasingRates,
    ExponentialRates,
    FixedRates,
    GradualRates,
    HansenKernRates,
    RankMu,
    RankOne,
    SpectralRates,
    Transform,
)
from sublevel.engine.weights import Active, LeaveOneOut, Quantile, Truncation, Utilities, Volume
from sublevel.engine.weights.protocol import Weights
from sublevel.engine.weights.quantile import Scheme


def cma(
    *,
    c_mean: float = 1.0,
    step_size: str = "csa",
    popsize: int | None = None,
    family: type[Family] = FullGaussian,
    sampling: str = "mirrored-orthogonal",
) -> Method:
    """CMA-ES: covariance matrix adaptation evolution strategy.

    Parameters
    ----------
    c_mean : float, optional
        Learning rate of the mean.
    step_size : {"csa", "tpa", "psr"}, optional
        Step-size rule: cumulative step-size adaptation, two-point adaptation or the population success rule.
    popsize : int, optional
        Number of points per generation; 4 + ⌊3 ln d⌋ if None.
    family : type, optional
        `FullGaussian`, `DiagonalGaussian` or `IsotropicGaussian`.
    sampling : {"mirrored-orthogonal", "mirrored", "orthogonal", "independent"}, optional
        Dependence of the points of a sample. In the tutorial they are independent; the default needs about a quarter
        fewer evaluations.

    Returns
    -------
    Method
        For the argument `method` of `minimize` and `Optimizer`.

    References
    ----------
    N. Hansen, The CMA Evolution Strategy: A Tutorial, arXiv:1604.00772.

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: x @ x, [1, 1], 0.5, method=sl.cma(step_size="tpa"), rng=1, ftarget=1e-6)
    >>> result.success
    True
    """
    rule = _step_size(step_size)
    paths = rule if step_size == "csa" else (Cumulation(), *rule)  # the rank-one update reads the step-size path
    transforms = (*paths, RankMu(), RankOne(), *_mean_factor(c_mean))
    other = step_size if step_size != "csa" else None
    return _method("cma", other, sampling, Active(), transforms, popsize, family, usual="mirrored-orthogonal")


def xnes(
    *,
    c_mean: float = 1.0,
    step_size: str | None = None,
    popsize: int | None = None,
    family: type[Family] = FullGaussian,
    sampling: str = "independent",
) -> Method:
    """Exponential natural evolution strategy; separable NES for a diagonal or isotropic family.

    Parameters
    ----------
    c_mean : float, optional
        Learning rate of the mean.
    step_size : {"csa", "tpa", "psr"}, optional
        Additional step-size rule; none if None.
    popsize : int, optional
        Number of points per generation; 4 + ⌊3 ln d⌋ if None.
    family : type, optional
        `FullGaussian`, `DiagonalGaussian` or `IsotropicGaussian`.
    sampling : {"independent", "orthogonal", "mirrored", "mirrored-orthogonal"}, optional
        Dependence of the points of a sample. "mirrored-orthogonal" needs the fewest evaluations on most functions.

    Returns
    -------
    Method
        For the argument `method` of `minimize` and `Optimizer`.

    References
    ----------
    T. Glasmachers et al., Exponential Natural Evolution Strategies, GECCO 2010.

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: x @ x, [1, 1], 0.5, method=sl.xnes(popsize=10), rng=1, ftarget=1e-6)
    >>> result.success
    True
    """
    transforms = (*_step_size(step_size), ExponentialRates(_mean_rate(c_mean)))
    weights = Quantile(Utilities(), average_ties=True)
    return _method("xnes", step_size, sampling, weights, transforms, popsize, family)


def _step_size(rule: str | None) -> tuple[Transform, ...]:
    """The parts of a step-size rule; none for None."""
    if rule is None:
        return ()
    if rule not in STEP_SIZES:
        raise ValueError(f"`step_size` must be one of {', '.join(map(repr, STEP_SIZES))}, got {rule!r}.")
    return STEP_SIZES[rule]


def _mean_rate(c_mean: float) -> float:
    """The rate, if it is one."""
    if not 0 < c_mean < float("inf"):
        raise ValueError(f"`c_mean` must be positive and finite, got {c_mean!r}. Usual values lie in (0, 1].")
    return c_mean


def _mean_factor(c_mean: float) -> tuple[Transform, ...]:
    """The part that multiplies the step of the mean; none for 1."""
    return () if _mean_rate(c_mean) == 1.0 else (FixedRates(c_mean, 1.0),)


def _method(
    name: str,
    step_size: str | None,
    sampling: str,
    weights: Weights,
    transforms: tuple[Transform, ...],
    popsize: int | None,
    family: type[Family],
    usual: str = "independent",
) -> Method:
    """A method whose name says what differs from the recipe's defaults: `usual` is its sampling."""
    if sampling not in SAMPLINGS:
        raise ValueError(f"`sampling` must be one of {', '.join(map(repr, SAMPLINGS))}, got {sampling!r}.")
    rule = None if sampling == usual else sampling
    full_name = "-".join(part for part in (name, step_size, rule) if part is not None)
    return Method(full_name, weights, transforms, popsize, family, sampling=SAMPLINGS[sampling])


ONSET = 500.0
"""Evaluations per variable in which the adaptation of "late-lra-cma" sets in; `benchmarks/noise_budget.py` checks it.
"""


def with_adapted_rates(method: Method, *, onset: float | None = None) -> Method:
    """Add learning-rate adaptation (LRA) to a method: slower, and far more robust on multimodal and noisy functions.

    Parameters
    ----------
    method : Method
        The method to extend.
    onset : float, optional
        Evaluations per variable in which the adaptation gradually sets in, for small budgets. As in the paper if None:
        at once.

    Returns
    -------
    Method
        The method with `AdaptiveRates` as its last part, named ``lra-…``; ``late-lra-…`` with an `onset`.

    References
    ----------
    M. Nomura, Y. Akimoto, I. Ono, CMA-ES with Learning Rate Adaptation, GECCO 2023.

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.with_adapted_rates(sl.cma()).name
    'lra-cma'
    """
    name, rates = ("lra", AdaptiveRates()) if onset is None else ("late-lra", GradualRates(onset))
    return replace(method, name=f"{name}-{method.name}", transforms=(*method.transforms, rates))


def late_lra_cma() -> Method:
    """CMA-ES with learning rates that adapt gradually: the default method for noisy objectives."""
    return with_adapted_rates(cma(), onset=ONSET)


VOLUMES: dict[str, type[Volume | LeaveOneOut]] = {"in-sample": Volume, "leave-one-out": LeaveOneOut}
"""Estimators of the volume of a sublevel set."""


def ngd(
    *,
    c_mean: float = 1.0,
    c_cov: float | None = None,
    exponent: float | None = None,
    estimator: str = "in-sample",
    step_size: str | None = None,
    popsize: int | None = None,
    family: type[Family] = FullGaussian,
    sampling: str = "independent",
) -> Method:
    """Stochastic natural gradient descent on the volume of sublevel sets.

    Parameters
    ----------
    c_mean : float, optional
        Learning rate of the mean, which is c_mean/σ₁(Z); that of the covariance is c_cov/(2σ₁(Z)). They are equal for
        c_mean = c_cov/2. With a step-size rule it is a factor of the step that the rule assumes.
    c_cov : float, optional
        Learning rate of the covariance, in (0, 1]. If None it is 0.1 for a full covariance and larger for a diagonal or
        isotropic one.
    exponent : float, optional
        Exponent of the volume; 2/d if None.
    estimator : {"in-sample", "leave-one-out"}, optional
        Whether the volume for a point is estimated from all points of the sample, as in the paper, or from the other
        ones. Leave-one-out does not shrink C under noise, and is far more reliable on slopes and ridges with small
        samples.
    step_size : {"csa", "tpa", "psr"}, optional
        Additional step-size rule; none if None.
    popsize : int, optional
        Number of points per generation; 4 + ⌊3 ln d⌋ if None.
    family : type, optional
        `FullGaussian`, `DiagonalGaussian` or `IsotropicGaussian`.
    sampling : {"independent", "orthogonal", "mirrored", "mirrored-orthogonal"}, optional
        Dependence of the points of a sample. "orthogonal" needs a few percent fewer evaluations than independent
        points, mirrored ones more, because they estimate C from half as many directions.

    Returns
    -------
    Method
        For the argument `method` of `minimize` and `Optimizer`.

    References
    ----------
    Y. Akimoto, Analysis of a Natural Gradient Algorithm on Monotonic Convex-Quadratic-Composite Functions, GECCO 2012.

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: x @ x, [1, 1], 0.5, method=sl.ngd(c_cov=0.3), rng=1, ftarget=1e-6)
    >>> result.success
    True
    """
    if estimator not in VOLUMES:
        raise ValueError(f"`estimator` must be one of {', '.join(map(repr, VOLUMES))}, got {estimator!r}.")
    rates = SpectralRates(c_cov, 1.0 if step_size is None else None)
    transforms = (*_step_size(step_size), rates, *_mean_factor(c_mean))
    return _method("ngd", step_size, sampling, VOLUMES[estimator](exponent), transforms, popsize, family)


def shape_only(*, span: float, constant_from: int, popsize: int | None = None) -> Method:
    """Natural gradient descent at constant volume: H⁻¹ up to a factor. Rates are span/t until `constant_from`."""
    return Method("shape", Volume(), (DecreasingRates(span, constant_from), ConstantVolume()), popsize)


def rank_mu(
    *,
    scheme: Scheme | None = None,
    c_mean: float = 1.0,
    c_cov: float | None = None,
    step_size: str | None = None,
    popsize: int | None = None,
    family: type[Family] = FullGaussian,
    sampling: str = "independent",
) -> Method:
    """Pure rank-µ update CMA-ES, an instance of information-geometric optimization (IGO).

    Parameters
    ----------
    scheme : callable, optional
        Maps a sample size n to weights (n,) from best to worst; equal weights for the best quarter if None.
    c_mean, c_cov : float, optional
        Learning rates of the mean and of the covariance. If `c_cov` is None it is the one of Hansen and Kern (PPSN
        2004).
    step_size : {"csa", "tpa", "psr"}, optional
        Additional step-size rule; none if None.
    popsize : int, optional
        Number of points per generation; 4 + ⌊3 ln d⌋ if None.
    family : type, optional
        `FullGaussian`, `DiagonalGaussian` or `IsotropicGaussian`.
    sampling : {"independent", "orthogonal", "mirrored", "mirrored-orthogonal"}, optional
        Dependence of the points of a sample. "mirrored-orthogonal" needs the fewest evaluations on most functions.

    Returns
    -------
    Method
        For the argument `method` of `minimize` and `Optimizer`.

    Examples
    --------
    >>> import sublevel as sl
    >>> result = sl.minimize(lambda x: x @ x, [1, 1], 0.5, method=sl.rank_mu(popsize=20), rng=1, ftarget=1e-6)
    >>> result.success
    True
    """
    rate = _mean_rate(c_mean)
    scheme = Truncation(0.25) if scheme is None else scheme
    rates = HansenKernRates(scheme, rate) if c_cov is None else FixedRates(rate, c_cov)
    transforms = (*_step_size(step_size), rates)
    return _method("rank-mu", step_size, sampling, Quantile(scheme), transforms, popsize, family)


def pbil(*, rate: float = 0.1, scheme: Scheme | None = None, popsize: int | None = None) -> Method:
    """Population-based incremental learning, for vectors of bits.

    Parameters
    ----------
    rate : float, optional
        Learning rate of the probabilities.
    scheme : callable, optional
        Maps a sample size n to weights (n,) from best to worst; equal weights for the best quarter if None.
    popsize : int, optional
        Number of points per generation; 4 + ⌊3 ln d⌋ if None.

    Returns
    -------
    Method
        For the argument `method` of `minimize` and `Optimizer`, whose `x0` then holds the initial probabilities P(bit =
        1).

    Examples
    --------
    >>> import sublevel as sl
    >>> sl.minimize(lambda x: -sum(x), [0.5] * 8, method=sl.pbil(rate=0.2), rng=1, ftarget=-8).x
    array([1., 1., 1., 1., 1., 1., 1., 1.])
    """
    scheme = Truncation(0.25) if scheme is None else scheme
    return Method("pbil", Quantile(scheme, average_ties=True), (FixedRates(rate, 0.0),), popsize, Bernoulli)
