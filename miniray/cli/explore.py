"""`miniray explore script.py`: run a program under many schedules, and shrink the one that fails.

    miniray explore [--seeds N] [--strategy S] [--crash P] ... -- script.py [args]
    miniray explore --seed 7 [--schedule 0,1] -- script.py [args]         replay one run, for instance under a debugger
    miniray explore ... -- -m module [args]                               the same for a module

The script runs as the main program, once for each seed, each time in a simulation of its own. `import ray` imports
miniray. A run fails if the script raises an exception, or exits with another code than 0.

The order of a set of strings depends on the variable PYTHONHASHSEED, which Python reads when it starts. If it is not
set, the command sets it to 0 and starts itself again. So the replay command that it prints has the same orders.
"""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from types import CodeType, ModuleType
from typing import TYPE_CHECKING, Any, Callable

from ..testing.exploring.arguments import KINDS, STRATEGIES, real_number, whole_number
from ..testing.exploring.error_text import repr_of
from .run import load_module, load_script

if TYPE_CHECKING:
    from ..testing.exploring.fault_plan import FaultPlan


def _type(check: Callable[[str], Any]) -> Callable[[str], Any]:
    """The type of an option: what `check` makes of the text. argparse shows the text of its error."""

    def convert(text: str) -> Any:
        try:
            return check(text)
        except ValueError as problem:
            raise argparse.ArgumentTypeError(str(problem)) from None

    return convert


def _choices(text: str) -> list[int]:
    from ..testing.exploring.exploration import choices_in

    return choices_in(text)


def add_parser(subparsers: Any) -> argparse.ArgumentParser:
    """Declare `explore`."""

    parser: argparse.ArgumentParser = subparsers.add_parser(
        "explore",
        help="run a program under many schedules, and shrink the one that fails",
        description="Run a program in simulations: one thread at a time, on a virtual clock. The seed decides which.",
        usage="miniray explore [options] [--] script.py [args ...]",
    )
    add = parser.add_argument
    count = _type(lambda text: whole_number("it", int(text), 1))
    probability = _type(lambda text: real_number("it", float(text), 0.0, 1.0))
    add("--seeds", type=count, metavar="N", help="how many seeds to try (default: 1000; one for --strategy exhaustive)")
    add("--strategy", choices=STRATEGIES, default="random", help="who goes on (default: random)")
    add("--depth", type=count, default=3, help="of the bugs that --strategy pct looks for (default: 3)")
    add("--max-schedules", type=count, default=10_000, metavar="N", help="of --strategy exhaustive (default: 10000)")
    add("--seed", type=int, metavar="N", help="run this seed only, and show what the program prints")
    add(
        "--schedule", type=_type(_choices), metavar="CHOICES", help="with --seed: the choices of a failure, such as 0,1"
    )
    add("--only-faults", metavar="NAMES", help="with --seed: the faults of a failure, with | between two names")
    for name in KINDS:
        option = f"--{name.replace('_', '-')}"
        add(
            option, type=probability, default=0.0, metavar="P", help=f"the probability of the fault {name}, from 0 to 1"
        )
    parser.add_argument("--timeline", metavar="FILE", help="write a timeline page of a failure, in virtual time")
    parser.add_argument("script", nargs=argparse.REMAINDER, metavar="script.py [args]", help="the program")
    parser.set_defaults(usage_error=parser.error)
    return parser


def _check(args: argparse.Namespace, has_faults: bool) -> None:
    """Refuse options that would have no effect."""
    if args.seed is None:
        for name, value in (("--schedule", args.schedule), ("--only-faults", args.only_faults)):
            if value is not None:
                args.usage_error(f"{name} needs --seed")
        return
    if args.seeds is not None:
        args.usage_error("--seed and --seeds cannot be given together")
    if args.schedule is None and args.strategy == "exhaustive":
        args.usage_error("--strategy exhaustive runs many schedules: --seed needs --schedule, or another strategy")
    if args.only_faults is not None and not has_faults:
        args.usage_error("--only-faults needs the options that give the faults their probabilities")


def _fix_the_order_of_sets() -> None:
    """Start this command again with PYTHONHASHSEED=0, unless the variable is set, or a debugger would lose us."""
    spec = getattr(sys.modules["__main__"], "__spec__", None)
    is_command = spec is not None and spec.name == "miniray.__main__" or os.path.basename(sys.argv[0]) == "miniray"
    if (
        sys.flags.hash_randomization
        and not sys.flags.ignore_environment
        and os.environ.get("PYTHONHASHSEED", "random") == "random"
        and is_command
        and os.name == "posix"
        and sys.gettrace() is None
    ):
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])


def run(args: argparse.Namespace) -> int:
    """Explore the program.

    Returns 0 if every run passed, 1 if one failed, and 2 if the program cannot be loaded or a replay did not repeat.
    """
    from ..testing import alias_ray
    from ..testing.exploring.fault_plan import FaultPlan

    words = args.script[1:] if args.script[:1] == ["--"] else args.script
    if not words:
        args.usage_error("name a script")
    given = {name: getattr(args, name) for name in KINDS if getattr(args, name)}
    _check(args, bool(given))
    if args.timeline and not os.path.isdir(os.path.dirname(args.timeline) or "."):
        args.usage_error(f"--timeline: there is no folder {os.path.dirname(args.timeline)!r}")
    is_module = words[:1] == ["-m"]
    if words == ["-m"]:
        args.usage_error("name a module after -m")
    _fix_the_order_of_sets()
    alias_ray()
    try:
        main, code = load_module(words[1]) if is_module else load_script(words[0])
    except (OSError, ImportError) as problem:
        print(f"miniray explore: {problem}", file=sys.stderr)
        return 2
    except SyntaxError as problem:
        sys.excepthook(type(problem), problem.with_traceback(None), None)
        return 2
    sys.argv[:] = [main.__file__ or words[1], *words[2:]] if is_module else words
    only = None if args.only_faults is None else frozenset(filter(None, args.only_faults.split("|")))
    plan = FaultPlan(**given, only=only) if given else None
    program = _program(main, code)
    if args.seed is not None:
        return _run_one(args, program, vars(main), plan)
    return _run_many(args, program, vars(main), plan, partial(_replay_command, words, given))


def _run_one(args: argparse.Namespace, program: Any, globals_: dict[str, Any], plan: FaultPlan | None) -> int:
    """Run the program with the given seed, and show what it prints. Raises the error of the program."""
    from ..runtime.simulated.schedules import PCT, RandomWalk, Replay, Schedule
    from ..testing.exploring.exploration import DidNotRepeat, check_replay, pct_length
    from ..testing.exploring.simulation import Run

    schedule: Schedule = RandomWalk(args.seed)
    if args.schedule is not None:
        schedule = Replay(args.schedule)
    elif args.strategy == "pct":
        length = pct_length(
            lambda seed, walk: Run(program, seed, walk, plan, watchdog_s=0, globals_=globals_, quiet=True).go()
        )
        schedule = PCT(args.seed, args.depth, length)
    once = Run(program, args.seed, schedule, plan, timeline=args.timeline, watchdog_s=0, globals_=globals_).go()
    if args.timeline:
        _tell_of_timeline(args.timeline, once.unwritten)
    try:
        check_replay(once)
    except DidNotRepeat as problem:
        print(f"miniray explore: {problem}", file=sys.stderr)
        return 2
    print(f"seed {args.seed} passed: {once.steps} steps, {once.virtual_s:g} s on the virtual clock")
    return 0


def _run_many(
    args: argparse.Namespace, program: Any, globals_: dict[str, Any], plan: FaultPlan | None, replay: Callable[..., str]
) -> int:
    """Run the program with many seeds, and report what was found."""
    from ..testing.exploring.exploration import SEEDS, ExplorationFailure, explore

    seeds = SEEDS if args.seeds is None else args.seeds
    options = {"depth": args.depth, "max_schedules": args.max_schedules, "replay": replay, "globals_": globals_}
    try:
        found = explore(program, seeds, args.strategy, plan, **options)
    except ExplorationFailure as failure:
        print(failure)
        if args.timeline:
            unwritten: OSError | None = None
            try:
                failure.timeline(args.timeline)
            except OSError as error:
                unwritten = error
            _tell_of_timeline(args.timeline, unwritten)
        return 1
    print(f"{found.runs} runs passed, with {found.distinct} different schedules and {found.steps} steps")
    if args.strategy == "exhaustive":
        print("every schedule was covered" if found.covered else "not every schedule was covered")
    for name in found.never:
        print(f"never met: {name}")
    return 0


def _replay_command(
    words: list[str], given: dict[str, float], seed: int, shrunk: list[int], plan: FaultPlan | None
) -> str:
    """The command that repeats a run that has failed. given: the probabilities of the faults."""
    import shlex

    from ..testing.exploring.replay_command import python

    options = [f"--seed {seed}", f"--schedule '{','.join(map(str, shrunk))}'"]
    options += [f"--{name.replace('_', '-')} {value!r}" for name, value in given.items()]
    if plan is not None and plan.only is not None:
        options.append(f"--only-faults {shlex.quote('|'.join(sorted(plan.only)))}")
    hash_seed = os.environ.get("PYTHONHASHSEED")
    variables = f"PYTHONHASHSEED={shlex.quote(hash_seed)} " if hash_seed else ""
    return f"{variables}{shlex.quote(python())} -m miniray explore {' '.join(options)} -- {shlex.join(words)}"


def _tell_of_timeline(path: str, problem: OSError | None) -> None:
    if problem is not None:
        print(f"miniray explore: the timeline was not written: {problem}", file=sys.stderr)
    elif os.path.exists(path):
        print(f"timeline: {path}")
    else:
        print("miniray explore: no timeline was written, since the program started no session", file=sys.stderr)


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
                raise AssertionError(f"the program exited with {repr_of(end.code)}") from None

    return program
