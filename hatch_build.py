"""The description on the package registry: README.md without pictures and links that only a clone can resolve."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
PICTURE = re.compile(r"^!\[[^\]]*\]\((?!https:)[^)]+\)\n\n", re.MULTILINE)
LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https:|#)[^)]+\)")


def registry_text(readme: str) -> str:
    """Remove relative pictures and replace relative links by their text; code is not changed."""
    parts = FENCE.split(readme)
    return "".join(part if part.startswith("```") else LINK.sub(r"\1", PICTURE.sub("", part)) for part in parts)


class RegistryReadme(MetadataHookInterface):
    """Set the dynamic field `readme`."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Read README.md."""
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": registry_text(text)}
