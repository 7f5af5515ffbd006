"""`miniray explore script.py`: run a program under many schedules, and shrink the one that fails.

    miniray explore [--seeds N] [--strategy S] [--crash P] ... -- script.py [args]
    miniray explore --seed 7 [--schedule 0,1] -- script.py [args]         replay one run, for instance under a debugger

The script runs as the main program, once for each seed, each time in a simulation of its own. `import ray` imports
miniray. A run fails if the script raises an exception, or exits with another code than 0.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
from types import CodeType, ModuleType
from typing import Any

from .run import load_script

PLAN = ("crash", "lose_node", "lose_object", "delay", "slow", "full_store", "clock_jump")


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `explore`."""
    parser: argparse.ArgumentParser = subparsers.add_parser(
        "explore",
        help="run a program under many schedules, and shrink the one that fails",
        description="Run a program in simulations: one thread at a time, on a virtual clock. The seed decides which.",
        usage="miniray explore [options] [--] script.py [args ...]",
    )
    parser.add_argument("--seeds", type=int, default=1000, metavar="N", help="how many seeds to try (default: 1000)")
    parser.add_argument("--strategy", choices=("random", "pct", "exhaustive"), default="random")
    parser.add_argument("--depth", type=int, default=3, help="of the bugs that --strategy pct looks for (default: 3)")
    parser.add_argument("--max-schedules", type=int, default=10_000, metavar="N", help="of --strategy exhaustive")
    parser.add_argument("--seed", type=int, metavar="N", help="run this seed only, and show what the program prints")
    parser.add_argument("--schedule", metavar="CHOICES", help="with --seed: the choices of a failure")
    parser.add_argument("--only-faults", metavar="NAMES", help="with --seed: the faults of a failure")
    for name in PLAN:
        option = f"--{name.replace('_', '-')}"
        parser.add_argument(option, type=float, default=0.0, metavar="P", help=f"the probability of the fault {name}")
    parser.add_argument("--timeline", metavar="FILE", help="write a timeline page of a failure, in virtual time")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="script.py [args]", help="the program")
    parser.set_defaults(usage_error=parser.error)
    return parser


def run(args: argparse.Namespace) -> int:
    """Explore the program. Returns 0 if every run passed, 1 if one failed, and 2 if it cannot be loaded."""
    from ..runtime.simulated.schedules import RandomWalk, Replay
    from ..testing import alias_ray
    from ..testing.exploration import ExplorationFailure, explore
    from ..testing.fault_plan import FaultPlan
    from ..testing.simulation import Run

    words = args.script[1:] if args.script[:1] == ["--"] else args.script
    if not words:
        args.usage_error("name a script")
    alias_ray()
    try:
        main, code = load_script(words[0])
    except OSError as problem:
        print(f"miniray explore: {problem}", file=sys.stderr)
        return 2
    sys.argv[:] = words
    given = {name: getattr(args, name) for name in PLAN if getattr(args, name)}
    plan = FaultPlan(**given) if given else None
    fn = _program(main, code)
    if args.seed is not None:
        choices = [int(choice) for choice in (args.schedule or "").split(",") if choice]
        if plan is not None and args.only_faults is not None:
            plan = dataclasses.replace(plan, only=frozenset(filter(None, args.only_faults.split("|"))))
        schedule = RandomWalk(args.seed) if args.schedule is None else Replay(choices)
        once = Run(fn, args.seed, schedule, plan, watchdog_s=0, globals_=vars(main)).go()
        if once.error is not None:
            raise once.error
        print(f"seed {args.seed} passed: {once.steps} steps, {once.virtual_s:g} s on the virtual clock")
        return 0

    def replay(seed: int, shrunk: Any, plan: FaultPlan | None) -> str:
        import shlex

        options = [f"--seed {seed}", f"--schedule '{','.join(map(str, shrunk))}'"]
        options += [f"--{name.replace('_', '-')} {value:g}" for name, value in given.items()]
        if plan is not None and plan.only is not None:
            options.append(f"--only-faults {shlex.quote('|'.join(sorted(plan.only)))}")
        return f"python -m miniray explore {' '.join(options)} -- {shlex.join(words)}"

    try:
        found = explore(
            fn,
            range(args.seeds),
            args.strategy,
            plan,
            depth=args.depth,
            max_schedules=args.max_schedules,
            replay=replay,
            globals_=vars(main),
        )
    except ExplorationFailure as failure:
        print(failure)
        if args.timeline:
            failure.timeline(args.timeline)
            print(f"timeline: {args.timeline}")
        return 1
    print(f"{found.runs} runs passed, with {found.distinct} different schedules and {found.steps} steps")
    if args.strategy == "exhaustive":
        print("every schedule was covered" if found.covered else "not every schedule was covered")
    for name in found.never:
        print(f"never met: {name}")
    return 0


def _program(main: ModuleType, code: CodeType) -> Any:
    """A function that runs the script from the beginning, in fresh globals."""
    fresh = dict(vars(main))

    def program() -> None:
        vars(main).clear()
        vars(main).update(fresh)
        sys.modules["__main__"] = main
        try:
            exec(code, vars(main))
        except SystemExit as end:
            if end.code not in (None, 0):
                raise AssertionError(f"the program exited with {end.code!r}") from None

    return program
