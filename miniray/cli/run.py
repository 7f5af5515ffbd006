"""`miniray run script.py`: run a program on miniray or on Ray, whichever of the two it imports.

    miniray run [--engine miniray] script.py [args]     `import ray` imports miniray
    miniray run --engine ray [--address A] script.py    `import miniray` imports Ray, here or on the cluster at A
    miniray run ... -m module [args]                    the same for a module, as `python -m module` runs it

All words after the script or the module are its arguments. It runs in this process, as the main program.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import os
import sys
from types import CodeType, ModuleType
from typing import Any

from ._grammar import Command


def add_parser(subparsers: Any) -> Command:
    """Declare `run`."""
    parser: Command = subparsers.add_parser(
        "run",
        help="run a Ray program on miniray, or a miniray program on Ray",
        description="Run a program. With --engine miniray, `import ray` imports miniray. With --engine ray, "
        "`import miniray` imports Ray.",
        usage="miniray run [--engine {miniray,ray}] [--address ADDRESS] [--] (script.py | -m module) [args ...]",
    )
    parser.add_argument(
        "--engine", choices=("miniray", "ray"), default="miniray", help="run on this library (default: miniray)"
    )
    parser.add_argument(
        "--address", help="with --engine ray: connect to the cluster at this address, in the form that ray.init takes"
    )
    parser.add_argument(
        "-m", dest="module", nargs=argparse.REMAINDER, metavar="module", help="run a module, with its arguments"
    )
    parser.add_argument(
        "script", nargs=argparse.REMAINDER, metavar="script.py [args]", help="run a file, with its arguments"
    )
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Run the program. Returns 0, 1 after an exception (shown without miniray's frames), or 2 if it cannot be loaded.

    A SystemExit of the program passes through.
    """
    words, is_module = (args.script, False) if args.module is None else (args.module, True)
    if words[:1] == ["--"]:
        words, is_module = words[1:], words[1:2] == ["-m"]
        words = words[1:] if is_module else words
    if not words:
        args.usage_error("name a script, or a module with -m")
    if args.address is not None and args.engine != "ray":
        args.usage_error("--address needs --engine ray: miniray runs in this process only")
    try:
        if args.engine == "ray":
            from ..engine import on_ray

            on_ray.install(args.address)
        else:
            from ..testing import alias_ray

            alias_ray()
        main, code = (load_module if is_module else load_script)(words[0])
    except (OSError, ImportError) as problem:
        print(f"miniray run: {problem}", file=sys.stderr)
        return 2
    except SyntaxError as problem:
        sys.excepthook(type(problem), problem.with_traceback(None), None)
        return 1
    sys.argv[:] = [main.__file__ or words[0], *words[1:]] if is_module else words
    # The module stays in place after the program has ended: the program's atexit handlers refer to it.
    sys.modules["__main__"] = main
    try:
        exec(code, vars(main))
    except Exception as error:
        trace = error.__traceback__.tb_next if error.__traceback__ is not None else None
        sys.excepthook(type(error), error.with_traceback(trace), trace)
        return 1
    return 0


def load_script(path: str) -> tuple[ModuleType, CodeType]:
    """Load a file as the main program. Its imports search the file's folder first."""
    with io.open_code(path) as file:
        code = compile(file.read(), path, "exec", dont_inherit=True)
    main = ModuleType("__main__")
    main.__file__ = path
    vars(main)["__builtins__"] = __builtins__
    search_first(os.path.dirname(os.path.realpath(path)))
    return main, code


def load_module(name: str) -> tuple[ModuleType, CodeType]:
    """Load a module, or a package's `__main__`, as the main program. Its imports search the current folder first.

    Raises ImportError if there is no such module, or if it has no code.
    """
    search_first(os.getcwd())
    spec = importlib.util.find_spec(name)
    if spec is not None and spec.submodule_search_locations is not None:
        spec = importlib.util.find_spec(f"{name}.__main__")
    loader: Any = spec.loader if spec is not None else None
    code = loader.get_code(spec.name) if hasattr(loader, "get_code") else None  # type: ignore[union-attr]
    if spec is None or code is None:
        raise ImportError(f"No module named {name}, or it cannot be run")
    main = ModuleType("__main__")
    main.__file__, main.__spec__, main.__loader__ = spec.origin, spec, loader
    main.__package__ = spec.parent
    vars(main)["__builtins__"] = __builtins__
    return main, code


def search_first(folder: str) -> None:
    """Replace the first entry of sys.path, set for this command, by the folder that Python would set for the program.

    Under `python -P` there is no such entry, and nothing changes.
    """
    if not getattr(sys.flags, "safe_path", False):
        sys.path[0] = folder
