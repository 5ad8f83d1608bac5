"""Recipes are data: the paper's algorithms, each a few parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sublevel.families import Bernoulli, FullGaussian
from sublevel.method import Method
from sublevel.transforms import (
    AdaptedRates,
    Cumulation,
    ExponentialRates,
    FadingRates,
    FixedRates,
    HansenKernRates,
    KeptVolume,
    SpectralRates,
)
from sublevel.weights import Active, Quantile, Truncation, Utilities, Volume
from sublevel.weights.quantile import Scheme


def cma(*, c_mean: float = 1.0, popsize: int | None = None, family: type[Any] = FullGaussian) -> Method:
    """CMA-ES: active weights, evolution paths, cumulative step-size adaptation."""
    return Method("cma", Active(), (Cumulation(c_mean),), popsize, family)


def xnes(*, c_mean: float = 1.0, popsize: int | None = None, family: type[Any] = FullGaussian) -> Method:
    """Exponential natural evolution strategy: NES utilities, exponential steps."""
    return Method("xnes", Quantile(Utilities(), average_ties=True), (ExponentialRates(c_mean),), popsize, family)


def with_adapted_rates(method: Method) -> Method:
    """The method with learning-rate adaptation (LRA): slower and far more robust on multimodal and noisy functions."""
    return replace(method, name=f"lra-{method.name}", transforms=(*method.transforms, AdaptedRates()))


def ngd(
    *, c_cov: float | None = None, exponent: float | None = None, popsize: int | None = None, family: type[Any] = FullGaussian
) -> Method:
    """The paper's stochastic natural gradient descent: volume cost, spectral rates.

    If `c_cov` is None it is 0.1 for a full covariance, and larger for a diagonal or isotropic one (`constants.spectral_rate`).
    """
    return Method("ngd", Volume(exponent), (SpectralRates(c_cov),), popsize, family)


def shape_only(*, span: float, settled: int, popsize: int | None = None) -> Method:
    """Natural gradient descent at a fixed volume, its rates falling like span/t until they are `settled`: learns H⁻¹ up to a factor."""
    return Method("shape", Volume(), (FadingRates(span, settled), KeptVolume()), popsize)


def rank_mu(
    *,
    scheme: Scheme | None = None,
    c_mean: float = 1.0,
    c_cov: float | None = None,
    popsize: int | None = None,
    family: type[Any] = FullGaussian,
) -> Method:
    """The pure rank-µ CMA-ES (IGO) the paper compares with: quantile cost, fixed rates (Hansen–Kern if `c_cov` is None)."""
    scheme = Truncation(0.25) if scheme is None else scheme
    rates = HansenKernRates(scheme, c_mean) if c_cov is None else FixedRates(c_mean, c_cov)
    return Method("rank-mu", Quantile(scheme), (rates,), popsize, family)


def pbil(*, rate: float = 0.1, scheme: Scheme | None = None, popsize: int | None = None) -> Method:
    """Population-based incremental learning: quantile cost and a fixed rate on independent bits."""
    scheme = Truncation(0.25) if scheme is None else scheme
    return Method("pbil", Quantile(scheme, average_ties=True), (FixedRates(rate, 0.0),), popsize, Bernoulli)
