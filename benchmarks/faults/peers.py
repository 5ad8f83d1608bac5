"""Other libraries, each by the interface that its documentation shows and that serves it best."""

from __future__ import annotations

import json
import pickle
import sqlite3
import warnings
from concurrent.futures import ProcessPoolExecutor
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

from faults.library import BOX, BUDGET, Given, Library, Stepper, as_array, columns, keeping, named, threads
from faults.verdict import Answer

warnings.simplefilter("ignore")


class Best:
    """The best of what a loop of the user's has seen, and how much that was."""

    def __init__(self) -> None:
        self.x: Any = None
        self.fun, self.count = float("inf"), 0

    def see(self, x: Any, value: Any) -> None:
        self.count += 1
        if value < self.fun:
            self.x, self.fun = np.array(x), value


class Cma(Library):
    """The package `cma`: `fmin2`; `CMAEvolutionStrategy.optimize` for workers and where its state has to survive;
    `pickle_dumps`.
    """

    name, package = "cma", "cma"
    features = named(
        "x0 sigma0 bounds popsize maxfevals maxiter ftarget seed restarts callback keywords workers store ask_tell "
        "progress"
    )
    converged = frozenset({"tolfun", "tolfunhist", "tolfunrel", "tolx", "ftarget"})

    def options(self, given: Given) -> dict[str, Any]:
        own = {
            name: value
            for name, value in given.items()
            if name not in ("x0", "sigma0", "restarts", "callback", "workers")
        }
        if "bounds" in own:
            own["bounds"] = columns(own["bounds"])
        shows = {"verbose": 1, "verb_log": 0} if own.pop("progress", False) else {"verbose": -9}
        return shows | {"maxfevals": BUDGET, "seed": 1} | own

    def answer(self, es: Any) -> Answer:
        reasons, result = es.stop(), es.result
        return Answer(
            result.xbest, result.fbest, bool(set(reasons) & self.converged), result.evaluations, str(dict(reasons))
        )

    def minimize(self, fun: Any, given: Given) -> Answer:
        import cma

        x0, sigma0 = given.get("x0", [1.0, 1.0]), given.get("sigma0", 0.5)
        if "restarts" not in given and (getattr(fun, "survives", False) or "workers" in given):
            es = cma.CMAEvolutionStrategy(x0, sigma0, self.options(given))
            with keeping(lambda _: int(es.countevals)):
                es.optimize(fun, n_jobs=given.get("workers", 0))
            return self.answer(es)
        how = {name: given[name] for name in ("restarts", "callback") if name in given}
        return self.answer(cma.fmin2(fun, x0, sigma0, self.options(given), **how)[1])

    def stepper(self) -> Stepper:
        import cma

        es = cma.CMAEvolutionStrategy([1.0, 1.0], 0.5, {"verbose": -9, "seed": 1})
        return Stepper(es.ask, es.tell, lambda: bool(es.stop()), lambda: self.answer(es), es.popsize)

    def store(self, fun: Any, file: Path, given: Given) -> Answer:
        import cma

        return self.driven(cma.CMAEvolutionStrategy([1.0, 1.0], 0.5, self.options(given)), fun, file)

    def driven(self, es: Any, fun: Any, file: Path) -> Answer:
        while not es.stop():
            points = es.ask()
            es.tell(points, [fun(point) for point in points])
            file.write_bytes(es.pickle_dumps())
        return self.answer(es)

    def resume(self, fun: Any, file: Path, given: Given) -> Answer:
        es = pickle.loads(file.read_bytes())
        es.opts.set(given)
        return self.driven(es, fun, file)

    def numbers(self, file: Path) -> list[float]:
        es = pickle.loads(file.read_bytes())
        return [es.countevals, es.sigma, es.best.f, *es.best.x, *es.mean, *np.ravel(es.sm.C), *es.pc]


class Cmaes(Library):
    """The package `cmaes`: the loop of its README, and pickles of the optimizer."""

    name, package = "cmaes", "cmaes"
    features = named("x0 sigma0 bounds popsize seed keywords store ask_tell")

    def made(self, given: Given) -> Any:
        import cmaes

        own = given.renamed(x0="mean", sigma0="sigma", popsize="population_size")
        own.pop("maxfevals", None)
        for name in ("mean", "bounds"):
            if name in own:
                own[name] = as_array(own[name])
        return cmaes.CMA(**({"mean": np.ones(2), "sigma": 0.5, "seed": 1} | own))

    def driven(self, optimizer: Any, best: Best, fun: Any, file: Path | None = None, budget: int = BUDGET) -> Answer:
        is_over = False
        with keeping(lambda _: best.count):
            while not is_over and best.count + optimizer.population_size <= budget:
                solutions = []
                for _ in range(optimizer.population_size):
                    x = optimizer.ask()
                    value = fun(x)
                    best.see(x, value)
                    solutions.append((x, value))
                optimizer.tell(solutions)
                is_over = optimizer.should_stop()
                if file is not None:
                    file.write_bytes(pickle.dumps((optimizer, best)))
        return Answer(best.x, best.fun, None if is_over else False, best.count)

    def minimize(self, fun: Any, given: Given) -> Answer:
        return self.driven(self.made(given), Best(), fun)

    def stepper(self) -> Stepper:
        optimizer, best = self.made(Given()), Best()

        def tell(points: Any, values: Any) -> None:
            optimizer.tell(list(zip(points, values, strict=False)))
            for point, value in zip(points, values, strict=False):
                best.see(point, value)

        def finished() -> Answer:
            return Answer(best.x, best.fun, None, best.count)

        size = optimizer.population_size
        return Stepper(lambda: [optimizer.ask() for _ in range(size)], tell, optimizer.should_stop, finished, size)

    def store(self, fun: Any, file: Path, given: Given) -> Answer:
        return self.driven(self.made(Given()), Best(), fun, file, given.get("maxfevals", BUDGET))

    def resume(self, fun: Any, file: Path, given: Given) -> Answer:
        return self.driven(*pickle.loads(file.read_bytes()), fun, file, given.get("maxfevals", BUDGET))

    def numbers(self, file: Path) -> list[float]:
        optimizer, best = pickle.loads(file.read_bytes())
        state = vars(optimizer)
        return [
            best.count,
            best.fun,
            *best.x,
            state["_sigma"],
            *state["_mean"],
            *np.ravel(state["_C"]),
            *state["_pc"],
            *state["_p_sigma"],
        ]


class DifferentialEvolution(Library):
    """`scipy.optimize.differential_evolution`. It cannot do without bounds."""

    name, package = "scipy DE", "scipy"
    features = named(
        "x0 bounds popsize maxiter seed method callback keywords vectorized workers executor progress snapshots"
    )

    def minimize(self, fun: Any, given: Given) -> Answer:
        from scipy.optimize import differential_evolution

        seed = "rng" if "rng" in signature(differential_evolution).parameters else "seed"  # before SciPy 1.15
        own = {"bounds": BOX, "maxiter": 60, seed: 1} | given.renamed(seed=seed, method="strategy", progress="disp")
        if "executor" in own:
            with threads(own.pop("executor")) as executor:
                result = differential_evolution(fun, **own, workers=executor.map, updating="deferred")
        elif own.get("vectorized") is True:
            result = differential_evolution(lambda X: fun(X.T), **own, updating="deferred")
        else:
            if "workers" in own:
                own["updating"] = "deferred"
            result = differential_evolution(fun, **own)
        return Answer(result.x, result.fun, bool(result.success), result.nfev, str(result.message))


class Optuna(Library):
    """Optuna with its CmaEsSampler, in memory or in SQLite."""

    name, package = "optuna", "optuna"
    features = named(
        "x0 sigma0 bounds popsize maxfevals seed method callback keywords store database shared_store ask_tell progress"
    )
    trials = 200

    def study(self, given: Given, file: Path | None = None, is_new: bool = False) -> Any:
        import optuna

        (optuna.logging.enable_default_handler if "progress" in given else optuna.logging.disable_default_handler)()
        own = {
            name: given[name] for name in given if name not in ("bounds", "maxfevals", "callback", "method", "progress")
        }
        x0 = own.pop("x0", [1.0, 1.0])
        try:
            own["x0"] = {f"x{index}": value for index, value in enumerate(x0)}
        except TypeError:
            own["x0"] = x0
        sampler = (
            given["method"] if "method" in given else optuna.samplers.CmaEsSampler(**({"sigma0": 0.5, "seed": 1} | own))
        )
        if file is None:
            return optuna.create_study(sampler=sampler)
        maker = optuna.create_study if is_new else optuna.load_study
        return maker(sampler=sampler, storage=f"sqlite:///{file}", study_name="run")

    def objective(self, fun: Any, given: Given) -> Any:
        bounds = given.get("bounds", BOX)

        def objective(trial: Any) -> Any:
            return fun(np.array([trial.suggest_float(f"x{index}", *pair) for index, pair in enumerate(bounds)]))

        return objective

    def driven(self, study: Any, fun: Any, given: Given) -> Answer:
        more = given.get("maxfevals", self.trials)
        callbacks: dict[str, Any] = {"callbacks": [given["callback"]]} if "callback" in given else {}
        callbacks |= {"show_progress_bar": True} if "progress" in given else {}
        with keeping(lambda _: len(study.get_trials(states=self.complete))):
            study.optimize(self.objective(fun, given), n_trials=more, **callbacks)
        return self.answer(study)

    @property
    def complete(self) -> Any:
        from optuna.trial import TrialState

        return (TrialState.COMPLETE,)

    def answer(self, study: Any) -> Answer:
        done = len(study.get_trials(states=self.complete))
        if not done:
            return Answer(None, None, False, 0)
        return Answer([study.best_params["x0"], study.best_params["x1"]], study.best_value, None, len(study.trials))

    def minimize(self, fun: Any, given: Given) -> Answer:
        return self.driven(self.study(given), fun, given)

    def stepper(self) -> Stepper:
        study = self.study(Given())

        def ask() -> Any:
            trials = [study.ask() for _ in range(6)]
            for trial in trials:
                for index in (0, 1):
                    trial.suggest_float(f"x{index}", -3.0, 3.0)
            return trials

        def tell(trials: Any, values: Any) -> None:
            for trial, value in zip(trials, values, strict=False):
                study.tell(trial, value)

        def point(trial: Any) -> Any:
            return np.array([trial.params["x0"], trial.params["x1"]])

        return Stepper(ask, tell, lambda: len(study.trials) >= self.trials, lambda: self.answer(study), 6, point)

    def store(self, fun: Any, file: Path, given: Given) -> Answer:
        return self.driven(self.study(Given(), file, is_new=True), fun, given)

    def resume(self, fun: Any, file: Path, given: Given) -> Answer:
        study = self.study(Given(), file)
        left = given.get("maxfevals", self.trials) - len(study.trials)
        return self.driven(study, fun, Given({**given, "maxfevals": max(left, 1)}))

    def numbers(self, file: Path) -> list[float]:
        done = self.study(Given(), file).get_trials(states=self.complete)
        return [
            len(done),
            *(trial.value for trial in done),
            *(trial.params[name] for trial in done for name in ("x0", "x1")),
        ]

    def forge(self, file: Path, payload: bytes, well: bool) -> None:
        """The pickle where its sampler keeps its state, which is a pickle too."""
        with sqlite3.connect(file) as connection:
            keys = "SELECT trial_system_attribute_id, key FROM trial_system_attributes WHERE key LIKE 'cma:%optimizer%'"
            for row, _ in connection.execute(keys).fetchall():
                value = json.dumps(payload.hex())
                connection.execute(
                    "UPDATE trial_system_attributes SET value_json = ? WHERE trial_system_attribute_id = ?",
                    (value, row),
                )
        connection.close()


class PyBobyqa(Library):
    """`pybobyqa.solve`. It answers bad input by a flag and a message, which count as an error."""

    name, package = "Py-BOBYQA", "Py-BOBYQA"
    features = named("x0 sigma0 bounds maxfevals keywords progress")

    def minimize(self, fun: Any, given: Given) -> Answer:
        import pybobyqa

        own = given.renamed(sigma0="rhobeg", maxfevals="maxfun", progress="print_progress")
        x0 = as_array(own.pop("x0", [1.0, 1.0]))
        if "bounds" in own:
            pairs = columns(own["bounds"])
            own["bounds"] = (
                tuple(np.array(end) for end in pairs) if isinstance(pairs, list) and len(pairs) == 2 else pairs
            )
        found = pybobyqa.solve(fun, x0, **({"rhobeg": 0.5, "maxfun": BUDGET, "do_logging": False} | own))
        if found.flag == found.EXIT_INPUT_ERROR:
            raise ValueError(found.msg)
        return Answer(found.x, found.f, found.flag == found.EXIT_SUCCESS, found.nf, found.msg)


class Nevergrad(Library):
    """Nevergrad's CMA by `minimize`, with an executor for workers; and `dump`."""

    name, package = "nevergrad", "nevergrad"
    features = named("x0 sigma0 bounds maxfevals seed method callback workers store ask_tell executor progress")

    def made(self, given: Given) -> Any:
        import nevergrad as ng

        space = ng.p.Array(init=as_array(given.get("x0", [1.0, 1.0]))).set_mutation(sigma=given.get("sigma0", 0.5))
        if "bounds" in given:
            pairs = columns(given["bounds"])
            space = space.set_bounds(*pairs) if isinstance(pairs, list) and len(pairs) == 2 else space.set_bounds(pairs)
        space.random_state.seed(given.get("seed", 1))
        maker = ng.optimizers.registry[given["method"]] if "method" in given else ng.optimizers.CMA
        optimizer = maker(
            parametrization=space,
            budget=given.get("maxfevals", BUDGET),
            num_workers=given.get("workers", given.get("executor", 1)),
        )
        if "callback" in given:
            optimizer.register_callback("tell", given["callback"])
        return optimizer

    def answer(self, optimizer: Any) -> Answer:
        best = (
            optimizer.pessimistic_best if hasattr(optimizer, "pessimistic_best") else optimizer.current_bests["minimum"]
        )
        return Answer(best.parameter.value, best.mean, None, optimizer.num_tell)

    def minimize(self, fun: Any, given: Given) -> Answer:
        optimizer = self.made(given)
        with keeping(lambda _: optimizer.num_tell):
            verbosity = 2 if "progress" in given else 0
            if "workers" in given or "executor" in given:
                with (
                    ProcessPoolExecutor(given["workers"])
                    if "workers" in given
                    else threads(given["executor"]) as executor
                ):
                    optimizer.minimize(fun, executor=executor, batch_mode=False)
            else:
                optimizer.minimize(fun, verbosity=verbosity)
        return self.answer(optimizer)

    def stepper(self) -> Stepper:
        optimizer = self.made(Given())

        def tell(candidates: Any, values: Any) -> None:
            for candidate, value in zip(candidates, values, strict=False):
                optimizer.tell(candidate, value)

        def is_over() -> bool:
            return optimizer.num_tell >= BUDGET

        return Stepper(
            lambda: [optimizer.ask() for _ in range(6)],
            tell,
            is_over,
            lambda: self.answer(optimizer),
            6,
            lambda c: c.value,
        )

    def driven(self, optimizer: Any, fun: Any, file: Path, budget: int) -> Answer:
        while optimizer.num_tell < budget:
            candidate = optimizer.ask()
            optimizer.tell(candidate, fun(candidate.value))
            optimizer.dump(file)
        return self.answer(optimizer)

    def store(self, fun: Any, file: Path, given: Given) -> Answer:
        return self.driven(self.made(Given()), fun, file, given.get("maxfevals", 200))

    def resume(self, fun: Any, file: Path, given: Given) -> Answer:
        import nevergrad as ng

        return self.driven(ng.optimizers.base.Optimizer.load(file), fun, file, given.get("maxfevals", 200))

    def numbers(self, file: Path) -> list[float]:
        import nevergrad as ng

        optimizer = ng.optimizers.base.Optimizer.load(file)
        best = optimizer.current_bests["minimum"]
        return [optimizer.num_tell, optimizer.num_ask, best.mean, *best.parameter.value]
