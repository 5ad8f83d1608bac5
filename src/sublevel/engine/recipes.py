"""Recipes are data: the paper's algorithms, each a few parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sublevel.engine.families import Bernoulli, FullGaussian
from sublevel.engine.method import Method
from sublevel.engine.transforms import (
    STEP_SIZES,
    AdaptiveRates,
    ConstantVolume,
    Cumulation,
    DecreasingRates,
    ExponentialRates,
    FixedRates,
    HansenKernRates,
    RankMu,
    RankOne,
    SpectralRates,
    Transform,
)
from sublevel.engine.weights import Active, Quantile, Truncation, Utilities, Volume
from sublevel.engine.weights.quantile import Scheme


def cma(*, c_mean: float = 1.0, step_size: str = "csa", popsize: int | None = None, family: type[Any] = FullGaussian) -> Method:
    """CMA-ES: active weights, evolution paths, and a rule for the step size ("csa", "tpa" or "psr")."""
    rule = _step_size(step_size)
    paths = rule if step_size == "csa" else (Cumulation(), *rule)  # the rank-one update reads the step-size path
    rate = () if c_mean == 1.0 else (FixedRates(c_mean, 1.0),)
    return Method(_with_rule("cma", step_size, "csa"), Active(), (*paths, RankMu(), RankOne(), *rate), popsize, family)


def xnes(*, c_mean: float = 1.0, step_size: str | None = None, popsize: int | None = None, family: type[Any] = FullGaussian) -> Method:
    """Exponential natural evolution strategy: NES utilities, exponential steps."""
    transforms = (*_step_size(step_size), ExponentialRates(c_mean))
    return Method(_with_rule("xnes", step_size), Quantile(Utilities(), average_ties=True), transforms, popsize, family)


def _step_size(rule: str | None) -> tuple[Transform, ...]:
    """The parts of a step-size rule; none if the covariance part decides alone."""
    if rule is None:
        return ()
    if rule not in STEP_SIZES:
        raise ValueError(f"`step_size` must be one of {', '.join(map(repr, STEP_SIZES))}, got {rule!r}.")
    return STEP_SIZES[rule]


def _with_rule(name: str, rule: str | None, usual: str | None = None) -> str:
    """The name of a method with a step-size rule."""
    return name if rule == usual else f"{name}-{rule}"


def with_adapted_rates(method: Method) -> Method:
    """The method with learning-rate adaptation (LRA): slower and far more robust on multimodal and noisy functions."""
    return replace(method, name=f"lra-{method.name}", transforms=(*method.transforms, AdaptiveRates()))


def ngd(
    *,
    c_cov: float | None = None,
    exponent: float | None = None,
    step_size: str | None = None,
    popsize: int | None = None,
    family: type[Any] = FullGaussian,
) -> Method:
    """The paper's stochastic natural gradient descent: volume cost, spectral rates.

    If `c_cov` is None it is 0.1 for a full covariance, and larger for a diagonal or isotropic one (`constants.spectral_rate`).
    """
    transforms = (*_step_size(step_size), SpectralRates(c_cov, 1.0 if step_size is None else None))
    return Method(_with_rule("ngd", step_size), Volume(exponent), transforms, popsize, family)


def shape_only(*, span: float, constant_from: int, popsize: int | None = None) -> Method:
    """Natural gradient descent at constant volume: learns H⁻¹ up to a factor. Rates fall like span/t up to iteration `constant_from`."""
    return Method("shape", Volume(), (DecreasingRates(span, constant_from), ConstantVolume()), popsize)


def rank_mu(
    *,
    scheme: Scheme | None = None,
    c_mean: float = 1.0,
    c_cov: float | None = None,
    step_size: str | None = None,
    popsize: int | None = None,
    family: type[Any] = FullGaussian,
) -> Method:
    """The pure rank-µ CMA-ES (IGO) the paper compares with: quantile cost, fixed rates (Hansen–Kern if `c_cov` is None)."""
    scheme = Truncation(0.25) if scheme is None else scheme
    rates = HansenKernRates(scheme, c_mean) if c_cov is None else FixedRates(c_mean, c_cov)
    return Method(_with_rule("rank-mu", step_size), Quantile(scheme), (*_step_size(step_size), rates), popsize, family)


def pbil(*, rate: float = 0.1, scheme: Scheme | None = None, popsize: int | None = None) -> Method:
    """Population-based incremental learning: quantile cost and a fixed rate on independent bits."""
    scheme = Truncation(0.25) if scheme is None else scheme
    return Method("pbil", Quantile(scheme, average_ties=True), (FixedRates(rate, 0.0),), popsize, Bernoulli)
