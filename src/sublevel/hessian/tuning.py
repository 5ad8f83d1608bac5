"""Tunables of `curvature` and of profile intervals: numbers that were chosen, not derived."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Tunables of `curvature`. A radius is the distance in the whitened frame at which f rises by `delta_f`."""

    # The frame that a search has learned
    axis_rounding: float = 1e-5  # rounding of x, as a fraction of a radius, up to which an axis may be lengthened
    history_clear: float = 100.0  # rise above the best value, in floating-point spacings, that is more than rounding
    history_clear_of_noise: float = 10.0  # the same in units of the noise: the best of 1e4 values is 4 too low
    # The region
    nll_rise: float = 0.5  # rise of a negative log-likelihood over the region: one standard deviation
    max_nll_rise: float = 2.0  # the largest such rise under noise: two standard deviations
    max_passes: int = 5  # regressions at most, each in a rounder frame than the one before
    roundness: float = 0.01  # smallest over largest whitened curvature from which a frame is round enough
    roundness_for_noise: float = 0.2  # the same under noise
    narrowing: float = 0.25  # with a `kind`, without noise: factor of the radius if extrapolation is inaccurate
    max_narrowings: int = 5  # how often the radius is narrowed at most
    min_change: float = 1e-9  # relative change of a curvature with the radius below which narrowing is of no use
    recentre_factor: float = 10.0  # radius over the distance to the minimum when the region is widened to include it
    noisy_budget: int = 500  # default budget under noise, in addition to 10·(d + 1)(d + 2) evaluations
    # The axes
    band: float = 5.0  # an axis is well scaled if f rises along it by the requested amount within this factor
    band_for_noise: float = 1.5  # the same under noise, where the precision depends on it
    max_factor: float = 1e3  # largest factor by which an axis is rescaled at once
    max_rescalings: int = 8  # how often the axes are rescaled at most
    damping: float = 0.6  # exponent of the stretch from the second rescaling on, for |x| and x⁴ to converge too
    max_growth: float = 1e3  # largest total factor for an axis along which f does not rise
    max_lack: float = 3e-3  # relative change of a curvature from half to full radius above which another scale is tried
    stride: float = 10.0  # factor of the radius when another scale is tried
    max_narrower: int = 5  # narrower scales that are tried at most
    max_wider: int = 3  # wider scales that are tried at most: three strides lead from a rise of 1e-8·|f| to 1e-2·|f|
    signal: float = 1e8  # rise in units of the floating-point spacing at f, which makes rounding 1e-8 of it
    argument_signal: float = 1e7  # radius in units of the floating-point spacing at x
    noise_signal: float = 100.0  # rise in units of the noise
    clear: float = 100.0  # a rise of so many times the rounding error is significant
    clear_of_noise: float = 5.0  # a rise of so many times the noise is significant
    repeats: int = 10  # evaluations of the centre from which noise is estimated
    max_probes: int = 12  # pairs of points evaluated at most to estimate how steep f is
    # Radii and repetitions under noise
    precision: float = 0.07  # relative error of a whitened curvature at which repetitions end
    smooth_change: float = 0.01  # without noise: relative change from which a curvature is extrapolated to radius 0
    max_rounds: int = 10_000  # repetitions at most
    noise_dof: int = 30  # degrees of freedom of the estimated noise, whose standard deviation is then known to 13 %
    significance: float = 4.0  # the largest of many changes is significant if it is so many standard errors
    visible: float = 2.0  # a single difference is significant if it is so many standard deviations
    max_radius: float = 4.0  # largest radius, in units of that at which f rises by `noise_signal` times the noise
    term_ratio: float = 1.6  # γ/β² of log cosh, a logistic likelihood; a geometric series has 1, a quartic 0
    flat: float = 0.01  # ratio to the largest curvature below which a relative change of a curvature is not reported
    max_moves: int = 4  # how often the centre is moved to the minimum at most
    min_rounds_left: int = 4  # rounds that another radius requires: its own, a pair around the minimum, and one more
    # Findings
    sure: float = 3.0  # standard errors above which a curvature is not 0, at least 2√k (noise, Wigner 1955)
    negligible: float = 1e-8  # ratio to the largest whitened curvature below which a curvature counts as 0
    too_noisy: float = 0.2  # typical relative error of a curvature from which noise is reported
    not_quadratic: float = 0.1  # relative change of a curvature from half to full radius above which f is not quadratic
    hidden_change: float = 0.5  # relative change of a curvature that noise must not hide
    trusted_radius: float = 1.5  # the minimum of the quadratic is used if it lies within so many radii
    unknown_share: float = 0.01  # fraction of a variance above which an unknown addition makes it undefined
    lower: float = 0.01  # fraction of `delta_f` by which a lower value is reported: that at a tenth of a radius
    far: float = 0.5  # under noise: distance in radii from which the minimum of the quadratic is evaluated
    missed: float = 0.5  # under noise: fraction of `delta_f` by which f may exceed the quadratic at that minimum


@dataclass(frozen=True, slots=True)
class ProfileTuning:
    """Tunables of profile intervals. The target is the rise of F to find; t and w are in standard deviations."""

    # Evaluations
    step: float = 0.1  # length of differences
    step_for_noise: float = 0.5  # the same under noise
    precision: float = 0.02  # standard deviation, as a fraction of the target, to which noisy values are averaged
    max_repeats: int = 64  # evaluations of one point at most; larger noise is refused
    lower: float = 0.02  # fraction of the rise at one standard deviation by which a reported value is below the minimum
    max_probes: int = 30  # evaluations at most to find the scale of a variable that lies at its bound
    probe_factor: float = 100.0  # factor of that scale between two of them
    # The path
    max_steps: int = 40  # gradients of one end at most
    accuracy: float = 0.02  # fraction of the target that the others may gain, or F may miss, for the secant to be used
    hasty_steps: int = 8  # gradients after which the model of the other variables is measured by differences
    near: float = 0.2  # relative change of t over which the other variables are extrapolated without a new gradient
    large: float = 0.3  # fraction of the target from which a gain is taken before t moves on
    careful: float = 0.005  # the same where the model is not trusted
    far: float = 3.0  # multiple of the target above which t moves back without a minimum over the other variables
    hopeless: float = 25.0  # multiple of the target above which t moves back without a gradient
    max_repairs: int = 8  # gradients of one repaired point at most
    max_backtracks: int = 6  # how often an inner step is shortened at most until f falls
    shortening: float = 0.3  # factor of each shortening
    max_inner_step: float = 2.0  # longest inner step
    max_t: float = 50.0  # t, as a multiple of that expected at the target, from which an interval is called open
    growth: float = 2.0  # largest factor by which t grows in one step
    shrinkage: float = 4.0  # largest factor by which t shrinks in one step
    touching: float = 1e-9  # distance from a bound within which a variable lies at it
    jump: float = 1e-3  # relative distance of two values of t between which F must jump
    feasible: float = 0.02  # fraction of a difference step that must fit into the bounds for the direction to be used
    flattest: float = 0.02  # least curvature of F along a direction; that of the quadratic is 2
    damping: float = 0.2  # Powell's damping of a BFGS update (Nocedal & Wright, Numerical Optimization, 2006, 18.2)
