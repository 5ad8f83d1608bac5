"""The environment that the exact result of a run depends on: libraries, their threads, and the machine."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import TypedDict, cast

import numpy as np

THREAD_VARIABLES = (
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "BLIS_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "OMP_NUM_THREADS",
)
"""Environment variables for the number of BLAS threads, in order of precedence."""
HOST = "host"
"""The entry that does not influence results."""
LONGEST = 500
"""Most characters of an entry."""

BuildConfig = TypedDict(
    "BuildConfig",
    {"Build Dependencies": dict[str, dict[str, str]], "SIMD Extensions": dict[str, list[str]]},
    total=False,
)
"""What `numpy.show_config(mode="dicts")` returns."""


@cache
def _c_library() -> str:
    """Name and version of the C library, which are read from the interpreter."""
    return " ".join(platform.libc_ver())


def environment() -> dict[str, str]:
    """Versions, BLAS and its threads, processor and host, as text by name."""
    import scipy

    numpy_config, scipy_config = _read_config(np.show_config), _read_config(scipy.show_config)
    facts = {
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "NumPy": np.__version__,
        "SciPy": scipy.__version__,
        "BLAS of NumPy": _blas(numpy_config),
        "BLAS of SciPy": _blas(scipy_config),
        "threads of BLAS": str(blas_threads()),
        "processor": _processor(numpy_config),
        "C library": _c_library(),
        "operating system": sys.platform,
        HOST: platform.node(),
    }
    return {name: text[:LONGEST] for name, text in facts.items()}


def describe_differences(before: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    """Describe the entries that differ and may influence results."""
    names = [name for name in now if name != HOST and before.get(name) != now[name]]
    return [f"{name}: {before.get(name, 'unknown')}, now {now[name]}" for name in names]


def blas_threads() -> int:
    """Number of threads of BLAS, from threadpoolctl if it is installed, else from environment variables."""
    try:
        pools = _thread_pools()()
    except ModuleNotFoundError:
        return _threads_from_environment()
    numbers = [int(pool["num_threads"]) for pool in pools if pool.get("user_api") == "blas"]
    return max(numbers, default=_threads_from_environment())


@cache
def _thread_pools() -> Callable[[], list[dict[str, str | int]]]:
    """A function that returns the thread pools as they are now, of libraries that are looked for once."""
    import threadpoolctl

    return cast("Callable[[], list[dict[str, str | int]]]", threadpoolctl.ThreadpoolController().info)  # pyright: ignore[reportUnknownMemberType]


def _threads_from_environment() -> int:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for name in THREAD_VARIABLES:
        text = os.environ.get(name, "")
        if text.isdecimal() and int(text) > 0:
            return min(int(text), cores)
    return cores


def _read_config(show_config: Callable[..., object]) -> BuildConfig:
    """The build configuration of a library."""
    return cast(BuildConfig, show_config(mode="dicts"))


def _blas(config: BuildConfig) -> str:
    blas = config.get("Build Dependencies", {}).get("blas", {})
    return f"{blas.get('name', 'unknown')} {blas.get('version', '')}".strip()


def _processor(config: BuildConfig) -> str:
    """The processor and the instruction sets that NumPy uses, by which OpenBLAS chooses its kernels as well."""
    found = config.get("SIMD Extensions", {}).get("found", [])
    chosen = os.environ.get("OPENBLAS_CORETYPE")
    return " ".join([platform.machine(), *map(str, found), *([f"OPENBLAS_CORETYPE={chosen}"] if chosen else [])])
