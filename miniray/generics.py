"""Stand-ins for three names of `typing`, which takes as long to import as a quarter of miniray.

Annotations are never evaluated. So the modules that the first task needs import `typing` for type checkers only, under
`if TYPE_CHECKING:`. TYPE_CHECKING is a plain name there; type checkers take it for true. What a class statement and a
decorator need when they run is here.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Generic as Generic, TypeVar as TypeVar
else:
    from types import GenericAlias

    def TypeVar(name, **options):
        """Stands for `typing.TypeVar`. Nobody looks at the result."""
        return name

    def overload(function):
        """Stands for `typing.overload`. The definition that follows replaces the result."""
        return function

    class Generic:
        """Stands for `typing.Generic`. `class Box(Generic[T])` derives from it, and `Box[int]` is an alias of Box."""

        __slots__ = ()

        def __class_getitem__(cls, parameters):
            return cls if cls is Generic else GenericAlias(cls, parameters)
