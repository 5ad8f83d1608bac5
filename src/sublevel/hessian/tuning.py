"""Tunables of `curvature` and of profile intervals: numbers that were chosen, not derived."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Tuning:
    """Tunables of `curvature`. A radius is the distance in the whitened frame at which f rises by `delta_f`."""

    # The frame that a search has learned
    axis_rounding: float = 1e-5
    """Rounding of x, as a fraction of a radius, up to which an axis may be lengthened."""
    history_clear: float = 100.0
    """Floating-point spacings above the best value from which a rise in the history is more than rounding."""
    history_clear_of_noise: float = 10.0
    """The same in standard deviations of noise: the best of 1e4 values is 4 of them too low."""
    # The region
    nll_rise: float = 0.5
    """Rise of a negative log-likelihood over the region: one standard deviation."""
    max_nll_rise: float = 2.0
    """The largest such rise under noise: two standard deviations."""
    max_passes: int = 5
    """Regressions at most, each in a rounder frame than the one before."""
    roundness: float = 0.01
    """Ratio of the smallest to the largest whitened curvature from which a frame is round enough."""
    roundness_for_noise: float = 0.2
    """The same under noise."""
    narrowing: float = 0.25
    """With a `kind` and without noise: factor of the radius when extrapolation is not accurate enough."""
    max_narrowings: int = 5
    """How often the radius is narrowed at most."""
    min_change: float = 1e-9
    """Relative change of a curvature with the radius below which narrowing is of no use."""
    recentre_factor: float = 10.0
    """Factor by which the distance to the minimum is exceeded when the region is widened to include it."""
    noisy_budget: int = 500
    """Default budget under noise, in addition to 10·(d + 1)(d + 2) evaluations."""
    # The axes
    band: float = 5.0
    """An axis is well scaled if f rises along it by the requested amount within this factor."""
    band_for_noise: float = 1.5
    """The same under noise, where the precision depends on it."""
    max_factor: float = 1e3
    """Largest factor by which an axis is rescaled at once."""
    max_rescalings: int = 8
    """How often the axes are rescaled at most."""
    damping: float = 0.6
    """Exponent of the stretch from the second rescaling on; it makes rescaling converge for |x| and x⁴ too."""
    max_growth: float = 1e3
    """Largest total factor for an axis along which f does not rise."""
    max_lack: float = 3e-3
    """Relative change of a curvature between half the radius and the radius above which another scale is tried."""
    stride: float = 10.0
    """Factor of the radius when another scale is tried."""
    max_narrower: int = 5
    """Narrower scales that are tried at most."""
    max_wider: int = 3
    """Wider scales that are tried at most: three strides lead from a rise of 1e-8·|f| to 1e-2·|f|."""
    signal: float = 1e8
    """Rise in units of the floating-point spacing at f, which makes rounding 1e-8 of it."""
    argument_signal: float = 1e7
    """Radius in units of the floating-point spacing at x."""
    noise_signal: float = 100.0
    """Rise in units of the noise."""
    clear: float = 100.0
    """A rise of so many times the rounding error is significant."""
    clear_of_noise: float = 5.0
    """A rise of so many times the noise is significant."""
    repeats: int = 10
    """Evaluations of the centre from which noise is estimated."""
    max_probes: int = 12
    """Pairs of points evaluated at most to estimate how steep f is."""
    # Radii and repetitions under noise
    precision: float = 0.07
    """Relative error of a whitened curvature at which repetitions end."""
    smooth_change: float = 0.01
    """Without noise: relative change of a curvature with the radius above which it is extrapolated to radius 0."""
    max_rounds: int = 10_000
    """Repetitions at most."""
    noise_dof: int = 30
    """Degrees of freedom from which the noise is estimated: its standard deviation is then known to 13 %."""
    significance: float = 4.0
    """The largest of many changes is significant if it is so many standard errors."""
    visible: float = 2.0
    """A single difference is significant if it is so many standard deviations."""
    max_radius: float = 4.0
    """Largest radius, in units of that at which f rises by `noise_signal` times the noise."""
    term_ratio: float = 1.6
    """γ/β² of log cosh, the logistic likelihood of one datum; a geometric series has 1, a cosine 0.4, a quartic 0."""
    flat: float = 0.01
    """Ratio to the largest curvature below which a relative change of a curvature is not reported."""
    max_moves: int = 4
    """How often the centre is moved to the minimum at most."""
    min_rounds_left: int = 4
    """Rounds left for which another radius is tried: that one, a pair around the minimum, and one more."""
    # Findings
    sure: float = 3.0
    """A curvature differs from 0 if it exceeds so many standard errors, and 2√k (eigenvalues of noise, Wigner 1955)."""
    negligible: float = 1e-8
    """Ratio to the largest whitened curvature below which a curvature counts as 0."""
    too_noisy: float = 0.2
    """Typical relative error of a curvature from which noise is reported."""
    not_quadratic: float = 0.1
    """Relative change of a curvature, between half the radius and the radius, from which f is not quadratic."""
    hidden_change: float = 0.5
    """Relative change of a curvature that noise must not hide."""
    trusted_radius: float = 1.5
    """The minimum of the quadratic is used if it lies within so many radii."""
    unknown_share: float = 0.01
    """A variance is undefined if a direction without curvature may add more than this fraction to it."""
    lower: float = 0.01
    """Fraction of `delta_f` by which a reported value must be lower: the minimum is a tenth of a radius away."""
    far: float = 0.5
    """Under noise: distance in radii from which the minimum of the quadratic is evaluated."""
    missed: float = 0.5
    """Under noise: fraction of `delta_f` by which f may exceed the quadratic at that minimum."""


@dataclass(frozen=True, slots=True)
class ProfileTuning:
    """Tunables of profile intervals. The target is the rise of F to find; t and w are in standard deviations."""

    # Evaluations
    step: float = 0.1
    """Length of differences."""
    step_for_noise: float = 0.5
    """The same under noise."""
    precision: float = 0.02
    """Standard deviation of a value, as a fraction of the target, to which noisy values are averaged."""
    max_repeats: int = 64
    """Evaluations of one point at most; larger noise is refused."""
    lower: float = 0.02
    """Fraction of the rise at one standard deviation by which a value must lie below the minimum to be reported."""
    max_probes: int = 30
    """Evaluations at most to find the scale of a variable that lies at its bound."""
    probe_factor: float = 100.0
    """Factor of that scale between two of them."""
    # The path
    max_steps: int = 40
    """Gradients of one end at most."""
    accuracy: float = 0.02
    """Fraction of the target that the others may still gain, or F may miss, when the secant gives the end."""
    hasty_steps: int = 8
    """Gradients after which the model of the other variables is measured by differences."""
    near: float = 0.2
    """Relative change of t over which the other variables are extrapolated without a new gradient."""
    large: float = 0.3
    """Fraction of the target from which a gain is taken before t moves on."""
    careful: float = 0.005
    """The same where the model is not trusted."""
    far: float = 3.0
    """Multiple of the target above which t moves back without a minimum over the other variables."""
    hopeless: float = 25.0
    """Multiple of the target above which t moves back without a gradient."""
    max_backtracks: int = 6
    """How often an inner step is shortened at most until f falls."""
    shortening: float = 0.3
    """Factor of each shortening."""
    max_inner_step: float = 2.0
    """Longest inner step."""
    max_t: float = 50.0
    """t, as a multiple of that expected at the target, from which an interval is called open."""
    growth: float = 2.0
    """Largest factor by which t grows in one step."""
    shrinkage: float = 4.0
    """Largest factor by which t shrinks in one step."""
    touching: float = 1e-9
    """Distance from a bound within which a variable lies at it."""
    jump: float = 1e-3
    """Relative distance of two values of t between which F must jump."""
    feasible: float = 0.02
    """Fraction of a difference step that must fit into the bounds for the direction to be used."""
    flattest: float = 0.02
    """Least curvature of F along a direction; that of the quadratic is 2."""
    damping: float = 0.2
    """Powell's damping of a BFGS update (Nocedal & Wright, Numerical Optimization, 2006, procedure 18.2)."""
