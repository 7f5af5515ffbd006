"""Stand-ins for three names of `typing`, which takes milliseconds to import.

Annotations are never evaluated. So the modules that the first task needs import `typing` for type checkers only, under
`if TYPE_CHECKING:`. There, TYPE_CHECKING is a plain variable, which type checkers take for true. This module has what a
class statement or a decorator needs when it runs. See chapters/decisions/14_imports_on_first_use.md.
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
