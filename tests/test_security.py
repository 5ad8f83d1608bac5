"""What the package must never do, read off its source: execute data, call a shell, listen, or draw code from a file."""

from __future__ import annotations

import ast

import pytest

from test_architecture import SOURCE, imports, modules

MODULES = {
    "pickle",
    "cPickle",
    "marshal",
    "shelve",
    "dill",
    "cloudpickle",
    "joblib",
    "yaml",
    "code",
    "codeop",
    "runpy",
    "ctypes",
    "pty",
}
"""Modules that make objects or code out of data."""
LISTENERS = {"socket", "socketserver", "http.server", "xmlrpc.server", "asyncio", "wsgiref"}
"""Modules by which a process could listen."""
SERVER = "dashboard.server"
"""The one module that listens: on the loopback interface, when `sublevel dashboard` is called."""
CALLS = {"eval", "exec", "compile", "__import__", "breakpoint", "input"}
SHELLS = {"system", "popen", "startfile", "getoutput", "getstatusoutput"}
RESOLVERS = ("", "cli.objective")
"""The modules that import by name: public names of the package, and what the user typed as module:function or
file.py:function.
"""
COMPLETION = "cli.completion"
"""The one module that names shells: it writes their completion scripts, and starts nothing."""


def call_name(node):
    """The last part of what is called."""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def keyword(node, name):
    """What is given for an argument, as text."""
    return next((ast.unparse(word.value) for word in node.keywords if word.arg == name), None)


def forbidden_modules(module, tree):
    names, refused = set(imports(tree)), MODULES if module == SERVER else MODULES | LISTENERS
    return sorted(name for name in names if any(name == bad or name.startswith(bad + ".") for bad in refused))


def code_from_text(module, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id in CALLS and isinstance(node.ctx, ast.Load):
            yield node.id
        if (
            isinstance(node, ast.Call)
            and call_name(node) in ("import_module", "exec_module")
            and module not in RESOLVERS
        ):
            yield ast.unparse(node)


def shells(module, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and (keyword(node, "shell") not in (None, "False") or call_name(node) in SHELLS):
            yield ast.unparse(node)
        if (
            isinstance(node, ast.Constant)
            and node.value in ("/bin/sh", "/bin/bash", "sh", "bash", "cmd.exe")
            and module != COMPLETION
        ):
            yield node.value


def objects_from_arrays(module, tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and call_name(node) in ("load", "fromfile", "loadtxt", "genfromtxt"):
            is_numpy = isinstance(node.func, ast.Attribute) and ast.unparse(node.func.value) in ("np", "numpy")
            if is_numpy and keyword(node, "allow_pickle") != "False":
                yield ast.unparse(node)
        if isinstance(node, ast.Call) and keyword(node, "allow_pickle") not in (None, "False"):
            yield ast.unparse(node)


RULES = {
    "no module that makes objects or code out of data, none that listens": forbidden_modules,
    "no code from text": lambda module, tree: list(code_from_text(module, tree)),
    "no shell": lambda module, tree: list(shells(module, tree)),
    "no objects from array files": lambda module, tree: list(objects_from_arrays(module, tree)),
}
BREACHES = [
    "import pickle",
    "from pickle import loads",
    "import marshal as m",
    "def f():\n    import cloudpickle",
    "import socket",
    "from http.server import HTTPServer",
    "eval('1')",
    "run = exec",
    "compile(text, '', 'exec')",
    "__import__('os')",
    "importlib.import_module(name)",
    "subprocess.run(text, shell=True)",
    "subprocess.run(text, shell=wanted)",
    "os.system('ls')",
    "os.popen('ls')",
    "subprocess.run(['sh', '-c', text])",
    "np.load(file)",
    "np.load(file, allow_pickle=True)",
    "numpy.load(file, allow_pickle=flag)",
]


@pytest.mark.parametrize("rule", RULES)
def test_the_package_keeps_the_rule(rule):
    breaches = {module: found for module, tree in modules() if (found := RULES[rule](module, tree))}
    assert not breaches


@pytest.mark.parametrize("breach", BREACHES)
def test_every_breach_is_seen(breach):
    assert [found for rule in RULES.values() for found in rule("store.file", ast.parse(breach))]


def test_the_module_that_names_shells_can_start_nothing():
    (tree,) = (tree for module, tree in modules() if module == COMPLETION)
    assert {name.split(".")[0] for name in imports(tree)} <= {
        "__future__",
        "re",
        "collections",
        "dataclasses",
        "typing",
    }


def test_only_the_command_reaches_the_module_that_listens():
    users = [
        module for module, tree in modules() if any(name.startswith(f"sublevel.{SERVER}") for name in imports(tree))
    ]
    assert users == ["cli.dashboard"]


def test_the_rules_see_the_whole_package():
    assert len(list(modules())) == len(list(SOURCE.rglob("*.py"))) > 50


def test_a_word_like_pickle_is_nowhere_in_what_reads_files():
    for file in (SOURCE / "store").glob("*.py"):
        text = file.read_text(encoding="utf-8").lower()
        assert "pickle" not in text
        assert "marshal" not in text
