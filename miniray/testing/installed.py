"""What `importlib.metadata` says about `ray` under the alias: libraries ask it which version of Ray is installed."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any


class Installed(MetaPathFinder):
    """Answers `importlib.metadata.version(name)`, in place of an installed distribution of that name."""

    def __init__(self, name: str, version: str):
        self.name, self.version = name, version

    def find_distributions(self, context: Any = None) -> list[Any]:
        """The distribution, if `context` asks for its name or for all. It has a name and a version, and no files."""
        if context is not None and context.name not in (None, self.name):
            return []
        # Not at the top: the import takes a tenth of a second, and a caller of this method has already imported it.
        from importlib.metadata import Distribution

        text = f"Metadata-Version: 2.1\nName: {self.name}\nVersion: {self.version}\n"

        class Named(Distribution):
            """A distribution that has only metadata."""

            def read_text(self, filename: str) -> str | None:
                return text if filename == "METADATA" else None

            def locate_file(self, path: Any) -> Any:
                raise FileNotFoundError(path)

        return [Named()]

    def find_spec(self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Find no module: this finder knows distributions only."""
