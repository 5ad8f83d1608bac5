"""The shape of the code itself: imports point one way, functions fit a screen, nothing touches what it should not."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import sublevel

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "sublevel"

# From the heart outwards; a module may import from its own layer and from those above it in this list. What is not
# named is the rest.
LAYERS = [
    {"engine.arrays", "engine.constants", "summaries", "run.data_frames"},
    {"engine.linalg"},
    {"engine.sampling"},
    {"engine.tangent"},
    {"engine.families"},
    {"engine.memory"},
    {"engine.ordering"},
    {"engine.weights"},
    {"engine.transforms"},
    {"engine.method"},
    {"engine"},
    {"surrogate.archive", "surrogate.model", "surrogate.control"},
    {"run.restarts", "run.search_space", "run.integers", "run.parameters"},
    {
        "evaluation.failures",
        "evaluation.dask_backend",
        "evaluation.this_process",
        "evaluation.values",
        "evaluation.objective",
        "evaluation.worker",
    },
    {
        "run.arguments",
        "validation",
        "run.initial",
        "run.constraints",
        "run.projection",
        "run.resampling",
        "run.termination",
        "run.narrowing",
        "run.noise_floor",
        "run.noisy_answer",
        "run.state",
        "run.sweep",
        "run.optimizer",
        "run.history",
        "run.labels",
        "surrogate",
    }
    | {"evaluation.processes", "evaluation.evaluators"},
    {"store"},
    {"run", "plots", "hessian", "rank_shape"},
    {"store.load", "store.resume", "evaluation.sharded"},
    {"store.fingerprint"},
]
HARD_DEPENDENCIES = {"numpy", "scipy", "sublevel"}
LONGEST_FUNCTION = 40
# Makers of generators; all else in np.random is the global generator.
RANDOM_TYPES = {
    "Generator",
    "BitGenerator",
    "SeedSequence",
    "PCG64",
    "PCG64DXSM",
    "SFC64",
    "Philox",
    "MT19937",
    "default_rng",
}


def modules():
    """Every module of the package by its dotted name below `sublevel`, parsed."""
    for file in sorted(SOURCE.rglob("*.py")):
        relative = file.relative_to(SOURCE).with_suffix("")
        yield (
            ".".join(part for part in relative.parts if part != "__init__"),
            ast.parse(file.read_text(encoding="utf-8")),
        )


def layer(module):
    """How far from the heart a module is."""
    parts = module.split(".")
    names = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
    return next((depth for name in names for depth, rooms in enumerate(LAYERS) if name in rooms), len(LAYERS))


def imports(tree):
    """Dotted names of all that a module imports, wherever it does."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def imports_outwards(module, tree):
    """What a module imports from further out than it is itself."""
    inner = [name.removeprefix("sublevel.") for name in imports(tree) if name.startswith("sublevel.")]
    return [name for name in inner if layer(name) > layer(module)]


def imports_on_import(tree):
    """Dotted names that a module imports as soon as it is imported itself."""
    return list(imports(ast.Module([node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)], [])))


def foreign_packages(names):
    """What is neither ours, nor in the standard library, nor a hard dependency."""
    return {name.split(".")[0] for name in names} - HARD_DEPENDENCIES - sys.stdlib_module_names


def long_functions(tree):
    """Functions that do not fit a screen."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return [function.name for function in functions if body_length(function) > LONGEST_FUNCTION]


def body_length(function):
    """Lines of a function below its signature and docstring, which have a line or more for every argument."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return function.end_lineno - body[0].lineno + 1 if body else 0


def uses_of_the_global_generator(tree):
    """np.random.<anything that draws or seeds>, and generators from no seed at all."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and ast.unparse(node.value) in {"np.random", "numpy.random"}
            and node.attr not in RANDOM_TYPES
        ):
            yield ast.unparse(node)
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("default_rng") and not node.args:
            yield ast.unparse(node)


def swallowed_errors(tree):
    """Handlers of everything that do nothing, and asserts, which `python -O` removes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            yield ast.unparse(node)
        if isinstance(node, ast.ExceptHandler):
            catches_all = node.type is None or ast.unparse(node.type) in {"Exception", "BaseException"}
            if catches_all and all(isinstance(statement, ast.Pass | ast.Continue) for statement in node.body):
                yield ast.unparse(node)


RULES = {
    "imports point one way": lambda module, tree: imports_outwards(module, tree),
    "functions fit a screen": lambda module, tree: long_functions(tree),
    "nobody touches the global generator": lambda module, tree: list(uses_of_the_global_generator(tree)),
    "errors are raised and never swallowed": lambda module, tree: list(swallowed_errors(tree)),
}
BREACHES = {
    "imports point one way": "def f():\n    from sublevel.run.minimize import minimize",
    "functions fit a screen": "def f():\n" + "    x = 1\n" * (LONGEST_FUNCTION + 1),
    "nobody touches the global generator": "x = np.random.standard_normal(3)",
    "errors are raised and never swallowed": "try:\n    f()\nexcept Exception:\n    pass",
}


@pytest.mark.parametrize("rule", RULES)
def test_source_keeps_the_rule(rule):
    breaches = {module: found for module, tree in modules() if (found := RULES[rule](module, tree))}
    assert not breaches


@pytest.mark.parametrize("rule", RULES)
def test_rule_can_be_broken(rule):
    assert RULES[rule]("engine.tangent", ast.parse(BREACHES[rule]))


@pytest.mark.parametrize(
    "snippet",
    ["np.random.seed(1)", "rng = np.random.default_rng()", "assert x > 0", "try:\n    f()\nexcept:\n    pass"],
)
def test_rules_see_more_than_one_kind_of_breach(snippet):
    tree = ast.parse(snippet)
    assert [*uses_of_the_global_generator(tree), *swallowed_errors(tree)]


def own_modules(names, known):
    """The modules of ours that imported names are or lie in."""
    inner = [name.removeprefix("sublevel.") for name in names if name.startswith("sublevel.")]
    return {next(module for module in (name, name.rpartition(".")[0]) if module in known) for name in inner}


def test_modules_do_not_import_each_other_in_circles():
    known = dict(modules())
    needs = {module: own_modules(imports(tree), known) - {module} for module, tree in known.items()}
    while free := [module for module, needed in needs.items() if not needed & needs.keys()]:
        for module in free:
            del needs[module]
    assert not needs


def test_package_can_be_imported_with_numpy_and_scipy_alone():
    known = dict(modules())
    reached, waiting = set(), {"", "cli.main", *sublevel._HOMES, "plots"}
    while waiting:
        module = waiting.pop()
        reached.add(module)
        waiting |= own_modules(imports_on_import(known[module]), known) - reached
    assert {"", "engine.method", "engine.weights.volume"} <= reached
    assert not {module: found for module in reached if (found := foreign_packages(imports_on_import(known[module])))}
    assert foreign_packages(["matplotlib.pyplot", "numpy.linalg", "ast"]) == {"matplotlib"}


def test_importing_the_package_loads_nothing_heavy():
    """Names are imported when they are first used."""
    heavy = [
        "scipy.stats",
        "scipy.optimize",
        "sqlite3",
        "numpy",
        "matplotlib",
        "distributed",
        "pandas",
        "pyarrow",
        "rich",
        "tqdm",
    ]
    code = f"import sys, sublevel; print([name for name in {heavy!r} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_oldest_versions_under_test_are_those_that_are_promised():
    promised = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    tested = (ROOT / "tests" / "oldest.txt").read_text()
    for requirement in promised:
        name, version = requirement.split(">=")
        assert re.search(rf"^{name}=={re.escape(version)}\.0$", tested, re.MULTILINE), requirement


# The page about the architecture

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# A part may be added without a change of the page.
OPEN = {"engine/families/", "engine/ordering/", "engine/weights/", "engine/transforms/step_size/", "run/restarts/"}


def table(head):
    """The names in the two columns of each row of the page's table with this head."""
    body = PAGE.split(f"\n{head}\n|---|---|\n")[1].split("\n\n")[0]
    return [[re.findall("`(.*?)`", column) for column in row.split(" | ", 1)] for row in body.splitlines()]


def module_names():
    """The modules of each directory of the package, but `__init__` and `__main__`."""
    found = {}
    for file in sorted(SOURCE.rglob("*.py")):
        if not file.stem.startswith("__"):
            found.setdefault(f"{(Path('sublevel') / file.relative_to(SOURCE)).parent.as_posix()}/", []).append(
                file.stem
            )
    return {directory.removeprefix("sublevel/") or "sublevel/": names for directory, names in found.items()}


def test_the_page_has_every_public_name_and_its_module():
    listed = {
        name: module.removesuffix(".py").rstrip("/")
        for names, [module] in table("| public name | module |")
        for name in names
    }
    homes = {name: module.replace(".", "/") for module, names in sublevel._HOMES.items() for name in names}
    assert listed == homes | {"plots": "plots"}
    assert set(listed) == set(sublevel.__all__) - {"__version__"}


def test_the_page_has_every_module():
    listed, found = {directory: names for [directory], names in table("| directory | modules |")}, module_names()
    assert listed.keys() == found.keys()
    for directory, names in found.items():
        assert names == listed[directory] or (directory in OPEN and set(listed[directory]) <= set(names)), directory


def test_the_page_explains_every_module_name_that_occurs_twice():
    names = [name for found in module_names().values() for name in found]
    names += [directory.rstrip("/").split("/")[-1] for directory in module_names()]
    explained = {name.split("/")[0].removesuffix(".py") for row, _ in table("| name | in each room |") for name in row}
    assert {name for name in names if names.count(name) > 1} == explained


def test_no_module_has_the_name_of_a_public_function_or_class():
    tops = {path.stem for path in SOURCE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert tops & set(sublevel.__all__) == {"plots"}
