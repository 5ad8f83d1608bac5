"""Validation of user input: `as_*` functions convert an argument, `validate_*` functions only check it."""

from __future__ import annotations

import difflib
import functools
import inspect
import operator
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Executor
from functools import cache
from numbers import Real
from typing import TYPE_CHECKING, Any, ParamSpec, SupportsIndex, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from sublevel.engine.arrays import Array
from sublevel.engine.constants import default_popsize
from sublevel.engine.families import FAMILIES, Bernoulli, Family
from sublevel.engine.families.protocol import SCALE_RANGE, in_range
from sublevel.engine.linalg import cholesky
from sublevel.engine.method import Method
from sublevel.engine.recipes import cma, late_lra_cma, ngd, pbil, rank_mu, with_adapted_rates, xnes
from sublevel.evaluation.dask_backend import is_client, validate_client
from sublevel.evaluation.failures import ATTEMPTS, OnError
from sublevel.evaluation.values import as_float64, plain_array
from sublevel.run.arguments import Seed, Workers
from sublevel.run.restarts import IPOP, STRATEGIES, Once, Restarts
from sublevel.summaries import short_repr

if TYPE_CHECKING:
    from scipy.optimize import Bounds


def _named(recipe: Callable[..., Method], family: type[Family], adapted: bool) -> Callable[[], Method]:
    return lambda: with_adapted_rates(recipe(family=family)) if adapted else recipe(family=family)


RECIPES: dict[str, Callable[[], Method]] = {
    f"{lra}{prefix}{name}": _named(recipe, family, bool(lra))
    for lra in ("", "lra-")
    for name, recipe in {"cma": cma, "ngd": ngd, "rank-mu": rank_mu, "xnes": xnes}.items()
    for prefix, family in FAMILIES.items()
} | {"late-lra-cma": late_lra_cma, "pbil": pbil}
"""Methods by name."""

FLOAT_BYTES = 8
ABOUT_SIGMA0 = "It is the initial standard deviation; start with about a third of the search range."


P = ParamSpec("P")
R = TypeVar("R")

OTHER_NAMES: Mapping[str, str] = {
    "args": "arguments params parameters fargs",
    "bounds": "bound box limits lower_bounds upper_bounds lower upper lb ub xl xu ranges range search_space",
    "callback": "callbacks",
    "constraint_handling": "constraint_method constraint_algorithm penalty",
    "constraint_tol": "catol tolcon constraint_tolerance feasibility_tol",
    "constraints": "constraint cons ineq eq nonlinear_constraints",
    "cov0": "cov covariance c0 c cov_init initial_covariance",
    "evaluate_x0": "eval_initial_x eval_x0",
    "ftarget": "f_target target stop_fitness stopfitness fitness_target target_value f_min fmin",
    "fun": "f func function objective objective_function objective_fun cost loss",
    "integrality": "integers integer is_integer int_vars integer_variables",
    "log_scaled": "log log_scale logscale log_scaled_variables",
    "maxfevals": "maxfev maxfun maxeval maxevals max_evals max_evaluations max_fevals max_nfev n_evals n_calls ncall "
    "budget n_trials",
    "maxiter": "maxiters max_iter max_iters max_iterations maxiterations n_iter niter iterations generations "
    "max_generations n_generations",
    "maxtime": "max_time time_limit timelimit max_seconds time_budget",
    "method": "algorithm solver optimizer sampler strategy",
    "names": "variable_names parameter_names param_names labels variables",
    "on_error": "catch on_failure",
    "popsize": "pop_size popsize_factor population population_size populationsize n_population npop lam lambda "
    "lambda_ batch_size",
    "progress": "verbose verbosity disp display show_progress progress_bar print_progress",
    "restarts": "n_restarts restart restart_strategy nrestarts",
    "rng": "seed random_state random_seed random_number_generator",
    "sigma0": "sigma sigma_0 sigma_init sigmas std std0 stds stddev step_size stepsize initial_step initial_sigma step",
    "store": "storage checkpoint file filename path db log_file save save_to",
    "timeout": "eval_timeout",
    "rtolfun": "rtol reltol rel_tol tolrel ftol_rel tolfunrel tolfun_rel frtol",
    "tolfun": "tol ftol fatol tolf f_tol abstol tol_fun tolfunabs",
    "tolx": "xtol xatol x_tol tol_x",
    "vectorized": "vectorize vectorised batch is_parallel",
    "workers": "n_jobs njobs num_workers n_workers nworkers processes n_processes parallel num_cpus n_cpus executor "
    "client map",
    "x0": "x_0 x x_init xinit x_start x0s init initial initial_guess guess p0 start mean mean0 initial_mean space",
}
"""Names of our arguments in other libraries."""
NOT_OFFERED: Mapping[str, str] = {
    "constraints constraint cons ineq eq": (
        "constraints other than `bounds` are not supported here, but in `minimize` and `Optimizer`: "
        "constraints=NonlinearConstraint(g, -numpy.inf, 0)."
    ),
    "categories categorical choices discrete": (
        "categorical variables are parameters of a `Space`: minimize(fun, Space(kind=Choice('a', 'b'), ...))."
    ),
    "integrality": "integers are searched by `minimize` and `Optimizer` only.",
    "options opts inopts solver_options minimizer_kwargs kwargs": "options are keyword arguments: write maxiter=100 "
    "and so on.",
    "jac gradient grad fprime hess hessp hessian": "derivatives are not used. Leave the argument out.",
    "dim ndim n_dim dimension dims d n_variables n_var": "the number of variables is the length of `x0`.",
}
"""Arguments of other libraries that are not supported, with the remedy."""
SYNONYMS = {other: ours for ours, others in OTHER_NAMES.items() for other in others.split()}
REFUSALS = {name: sentence for names, sentence in NOT_OFFERED.items() for name in names.split()}


def explain_keywords(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a function so that the TypeError for an unknown keyword suggests the right one."""
    known = [name for name in inspect.signature(function).parameters if name != "self"]

    @functools.wraps(function)
    def explained(*args: P.args, **kwargs: P.kwargs) -> R:
        for keyword in kwargs:
            if keyword not in known:
                raise TypeError(unknown_keyword(function.__qualname__.removesuffix(".__init__"), keyword, known))
        return function(*args, **kwargs)

    return explained


def user_level() -> int:
    """The `stacklevel` with which a warning of the caller refers to the line of the user's code."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).split(".")[0] == "sublevel":
        frame, level = frame.f_back, level + 1
    return level


def unknown_keyword(function: str, keyword: str, known: Iterable[str]) -> str:
    """The message for an unknown keyword of a function."""
    wrong, names = f"{function}() got an unexpected keyword argument {keyword!r}", list(known)
    meant = SYNONYMS.get(keyword.lower())
    if (refusal := REFUSALS.get(keyword.lower())) is not None and meant not in names:
        return f"{wrong}: {refusal}"
    if meant not in names:
        meant = next(iter(difflib.get_close_matches(keyword.lower(), names, n=1)), None)
    return f"{wrong}. " + (f"Did you mean `{meant}`?" if meant else f"Keywords: {', '.join(names)}.")


LARGE_BUDGET = 600
"""Evaluations per variable from which the learning rates of noisy searches adapt at once."""


def default_method(noise: bool, evaluations: float = 0.0) -> str:
    """The method if none is named, for a budget of evaluations per variable, 0 if it is not known.

    Adaptive learning rates average noise out. In a small budget they are too slow unless they set in late, and a large
    one is spent better with small rates from the start, because a search at the usual rates may settle in a local
    minimum; `benchmarks/noise_budget.py` compares.
    """
    if not noise:
        return "cma"
    return "lra-cma" if evaluations >= LARGE_BUDGET else "late-lra-cma"


def as_method(method: object) -> Method:
    """A method from its name or from a Method."""
    if isinstance(method, Method):
        if not hasattr(method.family, "start"):
            raise TypeError(f"`family` of a method must be a class such as DiagonalGaussian, got {method.family!r}.")
        return method
    names = f"Names: {', '.join(RECIPES)}."
    if not isinstance(method, str):
        raise TypeError(f"`method` must be a name or a Method, got {short_repr(method)}. {names}")
    if method not in RECIPES:
        near = difflib.get_close_matches(method.lower().replace("_", "-"), RECIPES, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        raise ValueError(f"`method` {method!r} is not known. {hint}{names}")
    return RECIPES[method]()


def as_generator(rng: Seed | None) -> np.random.Generator:
    """A generator from a seed, a Generator or None (SPEC 7)."""
    try:
        return np.random.default_rng(rng)
    except (TypeError, ValueError) as error:
        raise type(error)(f"`rng` must be a seed ≥ 0, a numpy Generator or None, got {short_repr(rng)}.") from None


def is_seed(rng: Seed | None) -> bool:
    """Whether the generator made from this has no other user: from a number or None, not from a generator."""
    return rng is None or isinstance(rng, int | np.integer)


def validate_callable(name: str, function: object) -> None:
    """Raise TypeError unless the argument is callable."""
    if not callable(function):
        hint = "Pass the function itself, not its return value."
        raise TypeError(f"`{name}` must be a function, got {short_repr(function)}. {hint}")


def as_callback(callback: Callable[..., object] | None) -> Callable[[object], object] | None:
    """A function of the intermediate result; as in SciPy, that may be the keyword-only `intermediate_result`."""
    if callback is None:
        return None
    validate_callable("callback", callback)
    try:
        given = inspect.signature(callback).parameters.get("intermediate_result")
    except (TypeError, ValueError):  # a builtin without a signature
        return callback
    if given is not None and given.kind is inspect.Parameter.KEYWORD_ONLY:
        return lambda result: callback(intermediate_result=result)
    return callback


def as_restarts(restarts: object) -> Restarts:
    """A restart strategy from None, a number of IPOP restarts, "ipop", "bipop", "auto" or a strategy object."""
    if restarts is None:
        return Once()
    if isinstance(restarts, str):
        if restarts not in STRATEGIES:
            names = ", ".join(map(repr, STRATEGIES))
            raise ValueError(f"`restarts` must be one of {names}, a number or a strategy object, got {restarts!r}.")
        return STRATEGIES[restarts]()
    if isinstance(restarts, type):
        name = restarts.__name__
        raise TypeError(f"`restarts` must be a strategy object, got the class {name}: write {name}().")
    if isinstance(restarts, Restarts):
        return restarts
    return IPOP(as_count("restarts", restarts, 0))


def as_args(args: object) -> tuple[object, ...]:
    """Further arguments of the objective, from a tuple or, as in SciPy, a single argument."""
    return cast("tuple[object, ...]", args) if isinstance(args, tuple) else (args,)


def as_workers(workers: object) -> Workers:
    """A number of processes ≥ 1, −1 for one per core, an executor, a Dask client, or a function like `map`."""
    if is_client(workers):
        validate_client(workers)
        return cast(Workers, workers)
    if callable(workers) or isinstance(workers, Executor) or (type(workers) is int and workers == -1):
        return cast(Workers, workers)
    try:
        return as_count("workers", workers)
    except (TypeError, ValueError) as error:
        other = "−1 for one process per core, an Executor, a dask.distributed.Client, or a function like `map`"
        raise type(error)(f"{error} Other values: {other}.") from None


def as_timeout(timeout: object) -> float | None:
    """Time limit of an evaluation in seconds; None for no limit."""
    return None if timeout is None else as_seconds("timeout", timeout)


def as_seconds(name: str, given: object) -> float:
    """A positive and finite number of seconds."""
    if isinstance(given, bool) or not isinstance(given, Real):
        raise TypeError(f"`{name}` must be a number of seconds or None, got {short_repr(given)}.")
    seconds = float(given)
    if not 0 < seconds < np.inf:
        hint = "It is in seconds; leave it out for no limit."
        raise ValueError(f"`{name}` must be positive and finite, got {short_repr(given)}. {hint}")
    return seconds


def as_on_error(on_error: object) -> OnError:
    """One of the values of `on_error`."""
    for name in ATTEMPTS:
        if isinstance(on_error, str) and on_error == name:
            return name
    kind = ValueError if isinstance(on_error, str) else TypeError
    raise kind(f"`on_error` must be one of {', '.join(map(repr, ATTEMPTS))}, got {short_repr(on_error)}.")


def as_flag(name: str, flag: object) -> bool:
    """True or False."""
    if type(flag) not in (bool, np.bool_):
        raise TypeError(f"`{name}` must be True or False, got {short_repr(flag)}.")
    return bool(flag)


SURROGATE_FACTOR = 2
"""How many times larger than usual a sample is by default with a surrogate, which ranks most of its points."""


def as_popsize(popsize: object, d: int, has_surrogate: bool = False) -> int:
    """A sample size ≥ 2 whose values fit into memory; None is the default for d dimensions."""
    size = (
        default_popsize(d) * (SURROGATE_FACTOR if has_surrogate else 1)
        if popsize is None
        else as_count("popsize", popsize, 2)
    )
    validate_memory(size, 1)
    return size


def as_surrogate(surrogate: object) -> int:
    """The number of evaluations at a time with a surrogate: True is 1, and False is 0, without one."""
    if isinstance(surrogate, bool):
        return int(surrogate)
    try:
        return as_count("surrogate", surrogate)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"`surrogate` must be True, False or the number of evaluations at a time, got {short_repr(surrogate)}."
        ) from None


def validate_memory(size: int, d: int) -> None:
    """Raise ValueError if `size` points in d dimensions do not fit into memory."""
    memory = physical_memory()
    if size * d * FLOAT_BYTES > memory:
        hint = " `minimize_sharded` evaluates large samples in parts." if size * FLOAT_BYTES <= memory else ""
        raise ValueError(
            f"`popsize` is too large for this machine: {d} numbers for each of {short_repr(size)} points do not fit "
            f"into its {memory / 1e9:.3g} GB of memory. Give a smaller `popsize`.{hint}"
        )


@cache
def physical_memory() -> float:
    """Bytes of memory of this machine; inf if unknown."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return np.inf


def as_count(name: str, count: object, least: int = 1) -> int:
    """A whole number ≥ least."""
    try:
        number = operator.index(cast(SupportsIndex, count))
    except TypeError:
        kind = type(count).__name__
        raise TypeError(f"`{name}` must be a whole number, got {short_repr(count)} of type {kind}.") from None
    if isinstance(count, bool) or number < least:
        raise ValueError(f"`{name}` must be a whole number of at least {least}, got {count!r}.")
    return number


def as_budget(name: str, budget: object) -> float:
    """A whole number ≥ 1, which may be a float such as 1e6, or inf for no limit."""
    if isinstance(budget, float) and budget == np.inf:
        return np.inf
    return as_count(name, int(budget) if isinstance(budget, float) and budget.is_integer() else budget)


def as_target(ftarget: object) -> float:
    """The value of f to reach; −inf if None."""
    if ftarget is None:
        return -np.inf
    array = plain_array("ftarget", ftarget)
    if array.size != 1 or array.dtype.kind not in "fiu" or np.isnan(array.item()):
        kind = ValueError if array.dtype.kind in "fiu" else TypeError
        raise kind(f"`ftarget` must be one real number, got {short_repr(ftarget)}. Leave it out if there is no target.")
    return float(array.item())


def as_positive(name: str, given: object, or_zero: bool = False) -> float:
    """One positive, finite number, or 0 if `or_zero`."""
    number = as_numbers(name, given)
    if number.size != 1 or not (number.item() > 0 or (or_zero and number.item() == 0)):
        wanted = "number of at least 0" if or_zero else "positive number"
        raise ValueError(f"`{name}` must be one {wanted}, got {short_repr(given)}.")
    return float(number.item())


def as_tolerance(name: str, given: object) -> float:
    """A tolerance of at least 0; None means 0, which disables it."""
    return 0.0 if given is None else as_positive(name, given, or_zero=True)


def as_names(names: object, d: int) -> tuple[str, ...]:
    """A name for each of d variables; x[0] … x[d − 1] if None."""
    if names is None:
        return tuple(map(default_name, range(d)))
    wanted = f"`names` must hold a name for each of the {d} variables"
    if isinstance(names, str | bytes) or not isinstance(names, Iterable):
        example = [f"name{i}" for i in range(min(d, 3))]
        raise TypeError(f"{wanted}, such as {example}, got {short_repr(cast(object, names))}.")
    called = tuple(str(name) for name in cast(Iterable[object], names))
    if len(called) != d:
        raise ValueError(f"{wanted}, got {len(called)}: {short_repr(cast(object, names))}.")
    if len(set(called)) != d:
        raise ValueError(f"`names` must differ from each other, got {short_repr(called)}.")
    for name in called:
        if not name.strip() or not name.isprintable():
            raise ValueError(f"`names` must hold printable text, got {name!r}.")
    return called


def default_name(index: int) -> str:
    """The name of a variable that was not named."""
    return f"x[{index}]"


def as_numbers(name: str, given: object) -> Array:
    """A new array of real, finite float64 numbers of any shape."""
    array = plain_array(name, given)
    if array.size == 0:
        raise ValueError(f"`{name}` must hold at least one number, got {short_repr(given)}.")
    if array.dtype.kind not in "fiu":
        hint = "Use numpy.asarray(..., dtype=float)."
        raise TypeError(f"`{name}` must hold real numbers, got {short_repr(given)} (dtype {array.dtype}). {hint}")
    numbers = as_float64(array)
    if not np.all(np.isfinite(numbers)):
        raise ValueError(f"`{name}` must be finite, got {short_repr(given)}. Replace NaN and inf by numbers.")
    return numbers.copy()


def as_x0(x0: object) -> Array:
    """The starting point (d,), d ≥ 1."""
    point = as_numbers("x0", x0)
    if point.ndim > 1:
        hint = "Its length is the number of variables."
        raise ValueError(f"`x0` must be one point of shape (d,), got shape {point.shape}. {hint}")
    if np.max(np.abs(point)) > SCALE_RANGE[1]:
        far = f"±{SCALE_RANGE[1]:.2g}"
        raise ValueError(f"`x0` must lie within {far}, got {short_repr(x0)}. Choose other units for the variables.")
    return np.atleast_1d(point)


def as_integrality(integrality: object, d: int) -> NDArray[np.bool_]:
    """A mask (d,) of the variables that are integers, from SciPy's `integrality`: 0 is real, 1 is an integer."""
    kinds = np.asarray(0 if integrality is None else integrality)
    if kinds.dtype.kind not in "biuf" or kinds.shape not in ((), (1,), (d,)):
        raise TypeError(
            f"`integrality` must be 0 (real) or 1 (integer) for each of the {d} variables, got "
            f"{short_repr(integrality)}."
        )
    if not np.all((kinds == 0) | (kinds == 1)):
        raise ValueError(
            f"`integrality` must be 0 (real) or 1 (integer); semi-continuous variables (2, 3) are not supported, got "
            f"{short_repr(integrality)}."
        )
    return np.broadcast_to(kinds == 1, (d,)).copy()


def as_bounds(bounds: object, d: int, whole: NDArray[np.bool_] | None = None) -> tuple[Array, Array]:
    """Lower and upper bounds (d,) from a (low, high) pair per variable or for all, or `scipy.optimize.Bounds`; those of
    variables that are integers, `whole` (d,), are the integers between them.
    """
    try:
        lower, upper = _lower_and_upper(bounds, d)
    except (TypeError, ValueError) as error:
        raise type(error)(
            f"`bounds` must hold a (low, high) pair of numbers for each of the {d} variables, or be one pair for all "
            f"of them, got {short_repr(bounds)}."
        ) from None
    if not np.all(lower <= upper):  # NaN too
        ends = f"{short_repr(lower)} and {short_repr(upper)}"
        raise ValueError(f"`bounds` must have low ≤ high for each variable, got {ends}.")
    if whole is not None:
        lower, upper = np.where(whole, np.ceil(lower), lower), np.where(whole, np.floor(upper), upper)
        if not np.all(lower <= upper):
            given = short_repr(bounds)
            raise ValueError(f"`bounds` must have an integer between them where `integrality` is 1, got {given}.")
    far = SCALE_RANGE[1]  # no search point is beyond; the largest float may be written for an open end
    return np.where(lower < -far, -np.inf, lower), np.where(upper > far, np.inf, upper)


def _lower_and_upper(bounds: object, d: int) -> list[Array]:
    """Lower and upper bounds (d,), which are not compared yet. Raises an error for a wrong type or shape."""
    scipy_optimize = sys.modules.get("scipy.optimize")  # if it was never imported, `bounds` is no `Bounds`
    if scipy_optimize is not None and isinstance(bounds, scipy_optimize.Bounds):
        ends = cast("Bounds", bounds)
        return [np.broadcast_to(np.asarray(end, dtype=np.float64), (d,)) for end in (ends.lb, ends.ub)]
    pairs: list[Any] = list(cast(Iterable[object], bounds))
    if len(pairs) == 2 and all(np.ndim(end) == 0 for end in pairs):
        pairs = [pairs] * d
    if len(pairs) != d or not all(np.size(pair) == 2 for pair in pairs):
        raise ValueError
    return [
        np.array([default if pair[side] is None else pair[side] for pair in pairs], dtype=np.float64)
        for side, default in ((0, -np.inf), (1, np.inf))
    ]


def as_log_scaled(log_scaled: object, lower: Array | float, x0: Array) -> NDArray[np.bool_]:
    """A mask (d,) of the variables that are searched on a log scale. They must be positive, with lower bounds ≥ 0."""
    mask = np.asarray(log_scaled)
    if mask.dtype != np.bool_ or mask.shape not in ((), (1,), x0.shape):
        raise TypeError(f"`log_scaled` must be True or False for each variable, got {short_repr(log_scaled)}.")
    mask = np.broadcast_to(mask, x0.shape).copy()
    if np.any(mask & (x0 <= 0)):
        raise ValueError(f"a variable that is `log_scaled` must be positive, got x0 = {short_repr(x0)}.")
    if np.any(mask & np.isfinite(lower) & (lower < 0)):
        raise ValueError(f"a `log_scaled` variable cannot have a negative lower bound, got {short_repr(lower)}.")
    return mask


def as_deviations(sigma0: object, d: int) -> Array:
    """Initial standard deviations (d,) from one number or one per variable."""
    if sigma0 is None:
        raise TypeError(f"`sigma0` is missing, got None. {ABOUT_SIGMA0}")
    deviations = as_numbers("sigma0", sigma0)
    if deviations.shape not in ((), (1,), (d,)):
        wanted = f"a number or have one entry per variable, shape ({d},)"
        raise ValueError(f"`sigma0` must be {wanted}, got shape {deviations.shape}.")
    if not np.all(deviations > 0):
        raise ValueError(f"`sigma0` must be positive, got {short_repr(sigma0)}. {ABOUT_SIGMA0}")
    return np.broadcast_to(deviations, (d,)).copy()


def as_covariance_root(cov0: object, d: int) -> Array:
    """Lower root (d, d) of a symmetric positive definite covariance."""
    cov = as_numbers("cov0", cov0)
    if cov.shape != (d, d):
        raise ValueError(f"`cov0` must have one row and column per variable, shape ({d}, {d}), got shape {cov.shape}.")
    variances, not_definite = np.diagonal(cov), f"`cov0` must be positive definite, got {short_repr(cov0)}"
    if not np.all(variances > 0):
        raise ValueError(f"{not_definite}: its diagonal holds variances.")
    scale = np.sqrt(variances)
    with np.errstate(over="ignore"):
        asymmetry, correlation = np.abs(cov - cov.T), cov / scale / scale[:, None]
    if not np.all(asymmetry <= 1e-8 * scale * scale[:, None]):
        hint = "(cov0 + cov0.T)/2 is the nearest symmetric matrix."
        raise ValueError(f"`cov0` must be symmetric, got {short_repr(cov0)}. {hint}")
    if not np.all(np.abs(correlation) < 1 + 1e-8):
        raise ValueError(f"{not_definite}: |cov0[i, j]| exceeds √(cov0[i, i]·cov0[j, j]).")
    root, definite = cholesky(0.5 * (correlation + correlation.T))
    if not definite:
        eigenvalue = f"its correlation matrix has the eigenvalue {np.linalg.eigvalsh(correlation)[0]:.3g}"
        raise ValueError(f"{not_definite}: {eigenvalue}. Add a multiple of the identity.")
    return scale[:, None] * root


def as_initial_distribution(family: type[Family], x0: object, sigma0: object, cov0: object) -> Family:
    """The initial distribution: N(x0, sigma0²·cov0) as far as the family has it, or bits with probabilities x0."""
    mean = as_x0(x0)
    if family is Bernoulli:
        return _as_bernoulli(mean, sigma0, cov0)
    deviations = as_deviations(sigma0, mean.size)
    root = None if cov0 is None else as_covariance_root(cov0, mean.size)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        theta = family.start(mean, deviations, root)
        within = np.all(in_range(theta.deviations)) and np.all(in_range(deviations))
    if not within:
        low, high = SCALE_RANGE
        raise ValueError(
            f"`sigma0`, times the root of `cov0`, must give standard deviations between {low:.2g} and {high:.2g}, for "
            f"a full covariance within a factor of 1e150 of each other, got {short_repr(sigma0)}. Choose other units "
            "for the variables."
        )
    return theta


def _as_bernoulli(probabilities: Array, sigma0: object, cov0: object) -> Family:
    for name, given in (("sigma0", sigma0), ("cov0", cov0)):
        if given is not None:
            hint = f"pass {name}=None and give P(bit = 1) as `x0`"
            raise ValueError(f"binary methods take no `{name}`, got {short_repr(given)}; {hint}.")
    if not np.all((probabilities >= 0) & (probabilities <= 1)):
        wanted = f"`x0` must hold probabilities in [0, 1] for a binary method, got {short_repr(probabilities)}"
        raise ValueError(f"{wanted}. Start with 0.5 for each bit.")
    return Bernoulli.start(probabilities)
