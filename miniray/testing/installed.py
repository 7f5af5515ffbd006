"""While `ray` is miniray: what `importlib.metadata` says of it, since libraries ask there which Ray is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any


class Installed(MetaPathFinder):
    """Answers `importlib.metadata.version(name)`, before any distribution of this name that is really installed."""

    def __init__(self, name: str, version: str):
        self.name, self.version = name, version

    def find_distributions(self, context: Any = None) -> list[Any]:
        """The one distribution, when it or all are asked for. It has a name and a version, and no files."""
        if context is not None and context.name not in (None, self.name):
            return []
        # Not at the top: whoever asks has imported it, and for all others it is a tenth of a second.
        from importlib.metadata import Distribution

        text = f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n"

        class Named(Distribution):
            """What there is to know of it."""

            def read_text(self, filename: str) -> str | None:
                return text if filename == "METADATA" else None

            def locate_file(self, path: Any) -> Any:
                raise FileNotFoundError(path)

        return [Named()]

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """It finds no modules."""
