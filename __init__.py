"""The folder of a clone, imported by a program beside it: it stands in for the package `miniray` inside."""

import os as _os

if __name__ == "miniray":  # under any other name the folder is not imported as the package, as by pytest
    _inside = _os.path.join(_os.path.dirname(_os.path.abspath(__file__)), "miniray")
    __path__ = [_inside]
    __file__ = _os.path.join(_inside, "__init__.py")
    with open(__file__, encoding="utf-8") as _file:
        exec(compile(_file.read(), __file__, "exec"))
