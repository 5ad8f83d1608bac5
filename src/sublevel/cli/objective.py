"""The objective of the command line: a function in a module, a function in a file, or an external program.

Only this module imports user code.
"""

from __future__ import annotations

import argparse
import difflib
import importlib
import importlib.util
import re
import shutil
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from sublevel.cli.common import CommandError
from sublevel.cli.program import LAST_NUMBER, Program
from sublevel.cli.template import used_variables
from sublevel.engine.arrays import Array

Objective = Callable[..., Any]
FUNCTION = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", re.ASCII)
FILE_FUNCTION = re.compile(r"(.+\.py):([A-Za-z_]\w*)", re.ASCII | re.DOTALL)
EXPECTED = "expected module:function or file.py:function, such as mymodule:cost or ./mymodule.py:cost"
LAST = "last"
"""Argument of --pattern for the last number in the output."""


def objective(
    given: argparse.Namespace, d: int, names: Sequence[str] | None = None, integers: Collection[int] = ()
) -> Objective:
    """The function of d variables to minimize, some of which may be integers."""
    if (given.function is None) == (given.command is None):
        raise CommandError("give either module:function or --command PROG ARG..., not both.")
    if given.command is not None:
        return program(given, d, names, integers)
    if given.pattern is not None:
        raise CommandError("--pattern applies to the output of a program; it needs --command.")
    return file_function(given.function, given.path) or module_function(given.function, given.path)


def program(given: argparse.Namespace, d: int, names: Sequence[str] | None, integers: Collection[int] = ()) -> Program:
    """The program of --command."""
    if not given.command or shutil.which(given.command[0]) is None:
        got = " ".join(given.command) or "nothing"
        raise CommandError(f"--command: program not found or not executable, got {got!r}.")
    if sys.platform == "win32":
        hint = "Call the program from a Python function instead."
        raise CommandError(f"--command is not available on Windows, which has no process groups. {hint}")
    try:
        used = used_variables(given.command, d, names)
    except ValueError as error:
        raise CommandError(f"--command: {error}") from None
    if used is not None and len(used) < d:
        unused = ", ".join(f"{{{names[i] if names else i}}}" for i in range(d) if i not in used)
        hint = "the program can read all values from stdin, as JSON"
        print(f"note: the arguments of the program do not use {unused}; {hint}", file=sys.stderr)
    constraints = getattr(given, "constraints", None) or 0
    return Program(given.command, given.timeout, given.pattern, names, integers, constraints)


def pattern(text: str) -> re.Pattern[str]:
    """A regular expression with at most one group, or the word `last`."""
    if text == LAST:
        return LAST_NUMBER
    try:
        compiled = re.compile(text, re.MULTILINE)
    except (re.error, OverflowError, RecursionError) as error:
        expected = f"expected a regular expression or the word {LAST}"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}: {error}") from None
    if compiled.groups > 1:
        expected = "expected at most one group, for the value; use (?:...) for other groups"
        raise argparse.ArgumentTypeError(f"{expected}, got {text!r}")
    return compiled


def objective_label(given: argparse.Namespace) -> dict[str, object]:
    """The objective as given on the command line. It is stored for information only."""
    if given.command is None:
        return {"function": given.function, "path": None if given.path is None else str(given.path)}
    label: dict[str, object] = {"command": [*given.command], "timeout": given.timeout}
    if given.pattern is not None:
        label["pattern"] = LAST if given.pattern is LAST_NUMBER else given.pattern.pattern
    return label


def module_function(name: str, path: Path | None) -> Objective:
    """The function of module:function. Installed modules take precedence over the working directory."""
    if FUNCTION.fullmatch(name) is None:
        raise CommandError(f"{EXPECTED}, got {name!r}.")
    if path is not None:
        if not path.is_dir():
            raise CommandError(f"--path must be a directory, got {path}.")
        sys.path.insert(0, str(path.resolve()))
    module_name, _, function_name = name.partition(":")
    return _get_function(_import_module(module_name, path), function_name, module_name)


def _import_module(name: str, path: Path | None) -> ModuleType:
    """Import a module; if it is not installed, from the working directory."""
    try:
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            top = name.partition(".")[0]
            is_here = Path(f"{top}.py").is_file() or Path(top).is_dir()
            if path is not None or error.name != top or not is_here:
                raise
            sys.path.append(str(Path.cwd()))
            importlib.invalidate_caches()
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        hint = "" if path else " Use ./directory/file.py:function, or give its directory with --path."
        raise CommandError(f"cannot import {name}: {error}.{hint}") from error
    except Exception as error:
        raise CommandError(f"importing {name} failed: {type(error).__name__}: {error}") from error


def _get_function(module: ModuleType, name: str, called: str) -> Objective:
    """A function of a module; the error suggests a similar name."""
    function = getattr(module, name, None)
    if callable(function):
        return function
    near = difflib.get_close_matches(name, [key for key, value in vars(module).items() if callable(value)], n=1)
    hint = f" Did you mean {near[0]}?" if near else ""
    local = Path(f"{called}.py")
    if local.is_file() and (origin := getattr(module, "__file__", None)) != str(local.resolve()):
        instead = f"use ./{local}:{name} for the one in the working directory"
        hint = f" It was imported from {origin or 'Python itself'}; {instead}."
    raise CommandError(f"{called} has no function {name}.{hint}")


@dataclass(frozen=True, slots=True)
class FileFunction:
    """A function of a Python file. Worker processes can load it, whatever the name of the file."""

    file: str
    name: str

    def __call__(self, point: Array | Mapping[str, object]) -> Any:
        """What the function returns at a point (d,), or at parameters by name."""
        return getattr(load_file(self.file), self.name)(point)


def file_function(name: str, path: Path | None) -> FileFunction | None:
    """The function of file.py:function, or None if no file is given. The file can import modules of its directory."""
    match = FILE_FUNCTION.fullmatch(name)
    if match is None:
        return None
    file = (path or Path()) / match[1]
    if not file.is_file():
        raise CommandError(f"there is no file {file}.")
    directory = str(file.resolve().parent)
    if directory not in sys.path:
        sys.path.append(directory)
    try:
        module = load_file(str(file.resolve()))
    except Exception as error:
        raise CommandError(f"importing {file} failed: {type(error).__name__}: {error}") from error
    _get_function(module, match[2], str(file))
    return FileFunction(str(file.resolve()), match[2])


_LOADED: dict[str, ModuleType] = {}
"""Modules by file: each file is executed once per process."""


def load_file(file: str) -> ModuleType:
    """Import a file. The module is named after the file unless the name is taken."""
    if file in _LOADED:
        return _LOADED[file]
    name = re.sub(r"\W", "_", Path(file).stem)
    if name in sys.modules or name in sys.stdlib_module_names:
        name = f"{name}_of_{Path(file).parent.name or 'root'}"
    specification = importlib.util.spec_from_file_location(name, file)
    if specification is None or specification.loader is None:
        raise ImportError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(specification)
    _LOADED[file] = sys.modules[name] = module
    try:
        specification.loader.exec_module(module)
    except BaseException:
        del _LOADED[file], sys.modules[name]
        raise
    return module
