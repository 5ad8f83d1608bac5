"""Optional packages, and what to install if one is missing."""

from __future__ import annotations


def missing_extra(needs: str, extra: str, error: ModuleNotFoundError) -> ModuleNotFoundError:
    """The error of a package that is missing, as a sentence that names the extra to install."""
    package = (error.name or extra).partition(".")[0]
    message = f"{needs} needs the package {package}, which is not installed: pip install 'sublevel[{extra}]'."
    return ModuleNotFoundError(message, name=package)
