"""`miniray run script.py`: run a program that says `import ray`, or `import miniray as ray`, on the one or on the
other.

    miniray run [--engine miniray] script.py [args]     `ray` is miniray, in this process
    miniray run --engine ray [--address A] script.py    `miniray` is Ray: on this machine, or on the cluster at A
    miniray run ... -m module [args]                    the same for a module, as in `python -m module`

What follows the script or the module belongs to it. It runs as the main program, in this process.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import sys
from types import CodeType, ModuleType
from typing import Any


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `run`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "run",
        help="run a program whose `import ray` is miniray, or whose `import miniray` is Ray",
        usage="miniray run [--engine {miniray,ray}] [--address ADDRESS] (script.py | -m module) [args ...]",
    )
    parser.add_argument("--engine", choices=("miniray", "ray"), default="miniray", help="what runs it (miniray)")
    parser.add_argument("--address", help="with --engine ray: of a running cluster, as ray.init takes it")
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="a module, and its arguments"
    )
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="script.py [args]", help="a file, and its arguments"
    )
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the program; its SystemExit is this one's. 1 after an exception, which is shown without our own frames."""
    words = args.script if args.module is None else args.module
    if not words:
        args.usage_error("a script, or -m and a module, is needed")
    if args.address is not None and args.engine != "ray":
        args.usage_error("--address needs --engine ray: miniray runs in this process only")
    try:
        if args.engine == "ray":
            from ..engine import on_ray

            on_ray.install(args.address)
        else:
            from ..testing import alias_ray

            alias_ray()
        main, code = (script_program if args.module is None else module_program)(words[0])
    except (OSError, ImportError) as problem:
        print(f"miniray run: {problem}", file=sys.stderr)
        return 2
    except SyntaxError as problem:
        sys.excepthook(type(problem), problem.with_traceback(None), None)
        return 1
    sys.argv[:] = [main.__file__ or words[0], *words[1:]] if args.module is not None else words
    # It stays in place after the program has ended: what it registered to run at exit refers to it.
    sys.modules["__main__"] = main
    try:
        exec(code, vars(main))
    except Exception as error:
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def script_program(path: str) -> tuple[ModuleType, CodeType]:
    """A file as the main program: what it imports is looked for beside it first."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__file__ = path
    vars(main)["__builtins__"] = __builtins__
    look_first_in(os.path.dirname(os.path.realpath(path)))
    return main, code


def module_program(name: str) -> tuple[ModuleType, CodeType]:
    """A module, or a package's `__main__`, as the main program: what it imports is looked for in the current folder
    first.
    """
    look_first_in(os.getcwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None  # type: ignore[union-attr]
    if spec is None or code is None:
        raise ImportError(f"No module named {name}, or none that can be run")
    main = ModuleType("__main__")
    main.__file__, main.__spec__, main.__loader__ = spec.origin, spec, loader
    main.__package__ = spec.parent
    vars(main)["__builtins__"] = __builtins__
    return main, code


def look_first_in(folder: str) -> None:
    """Put the folder where Python would have put it, in place of the one that it put there for us; unless told not to
    (-P).
    """
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
