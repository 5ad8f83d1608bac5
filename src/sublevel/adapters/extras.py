"""Optional packages, and what to install if one is missing."""

from __future__ import annotations


def missing_extra(needs: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error of a package that is missing, as a sentence that names the extra to install."""
    message = f"{needs} needs the package {error.name}: python -m pip install 'sublevel[{extra}]'."
    return ModuleNotFoundError(message, name=error.name)
