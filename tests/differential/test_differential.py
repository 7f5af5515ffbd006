"""The differential test's own parts: generator, zoos, comparison, shrinking, report; without Ray, on miniray's two modes."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.differential import class_zoo, interpreter_zoo, ray_workers
from tests.differential.backends import ROOT, Answer, Backend, Several, all_backends
from tests.differential.compare import KNOWN, Signature, differences, kind_of
from tests.differential.grammar import SLOT, generate
from tests.differential.program import Program, Statement
from tests.differential.report import Report
from tests.differential.rules import AREAS, OBJECTS, TERMS, table
from tests.differential.run import Comparison
from tests.differential.shrink import minimal, shrink, slice_of


@pytest.fixture(scope="module")
def backends() -> Iterator[dict[str, Several]]:
    """miniray's two modes, each in a session of its own."""
    found = all_backends(sys.executable, "", None)
    yield found
    for backend in found.values():
        backend.close()


def test_a_seed_gives_the_same_program_in_another_process():
    """No order of a set, no hash and no state of the process decides what is written."""
    ask = "from tests.differential.grammar import generate; print(''.join(generate(s).key for s in range(40)))"
    for hash_seed in "1", "2":
        done = subprocess.run(
            [sys.executable, "-c", ask], env={"PYTHONHASHSEED": hash_seed}, cwd=ROOT, capture_output=True, text=True
        )
        assert done.stdout.strip() == "".join(generate(seed).key for seed in range(40)), done.stderr


def test_every_program_compiles():
    """Of the grammar and of the zoos, statement by statement. Python 3.10 is enough."""
    programs = [*map(generate, range(300)), *class_zoo.programs(), *interpreter_zoo.programs()]
    for program in programs:
        for statement in program.statements:
            ast.parse(statement.text, feature_version=(3, 10))
            assert "$" not in statement.text.replace("$ZOO", "").replace("'$a'", ""), statement.text


def test_every_rule_can_be_reached():
    """The programs of some seeds have statements of each area, and define each kind of variable."""
    kinds = {statement.kind for seed in range(1500) for statement in generate(seed).statements}
    assert {name for name, area in AREAS.items() if area.weight} <= kinds
    assert {f"define.{name}" for name in OBJECTS} <= kinds


def test_every_slot_has_a_rule():
    """A word that no table knows would be found by chance only."""
    texts = [t for rules in (TERMS, OBJECTS) for alternatives in rules.values() for t in alternatives]
    texts += [t for area in AREAS.values() for t in area.statements]
    slots = {(new, word) for text in texts for new, word, _ in SLOT.findall(text)}
    assert sorted(word for new, word in slots if new and word not in OBJECTS) == []
    assert sorted(word for new, word in slots if not new and word not in {*TERMS, *OBJECTS, "u"}) == []


def test_the_kinds_of_the_zoos_have_names_of_their_own():
    """A name tells a cause; two kinds with one name would be one."""
    names = [name for _, name, *_ in class_zoo.all_kinds()]
    things = [section.name for section in table("zoo/interpreter.txt")]
    for some in names, things:
        assert sorted({name for name in some if some.count(name) > 1}) == []


def test_a_known_cause_is_on_the_portability_page():
    """The phrase that a pattern stands under can be read there."""
    page = " ".join((ROOT / "chapters/13_to_ray/README.md").read_text(encoding="utf-8").split())
    assert [phrase for phrase in KNOWN if phrase not in page] == []
    assert Signature("threaded", "interpreter.cwd", "returns False", "returns True").known in page


def test_a_part_that_needs_two_pieces_is_found():
    """ddmin keeps what is needed together, wherever it stands."""
    assert minimal(list(range(40)), lambda part: {7, 33} <= set(part)) == [7, 33]


def program(*texts: str) -> Program:
    """A program of these statements, all of one kind."""
    return Program("made", tuple(Statement("made", text) for text in texts))


def test_a_program_is_shrunk_to_the_lines_that_matter():
    """Statements go first, then lines inside of what is left; nothing that is not Python is tried."""
    long = program(*(f"a{n} = {n}" for n in range(20)), "b = 1\nif a3:\n    show('wrong')\n    b = 2\nb = 3", "c = 1")
    tried = []

    def wrong(candidate: Program) -> bool:
        tried.append(candidate.text)
        return "a3 = 3" in candidate.text and "show" in candidate.text

    assert [s.text for s in shrink(long, wrong).statements] == ["a3 = 3", "if a3:\n    show('wrong')"]
    assert all(compile(text, "", "exec") for text in tried)


def test_lines_are_compared_by_statement():
    """A statement with an answer of its own costs only itself: the next ones are compared all the same."""
    two = program("show(1)", "answer(lambda: {}['k'])", "show(3)")
    right = Answer([(0, "1"), (1, "raises KeyError"), (2, "3")])
    (found,) = differences(two, "threaded", right, Answer([(0, "1"), (1, "returns 'x'"), (2, "3")]))
    assert found.statement == 1 and found.signature == Signature("threaded", "made", "raises KeyError", "returns")
    assert differences(two, "threaded", right, right) == []


def test_a_crash_of_rays_driver_is_no_answer():
    """It often comes long after the statement that is to blame. One of miniray's is a difference."""
    two = program("show(1)", "show(2)")
    crashed, right = Answer([(1, "DIED")], "died"), Answer([(0, "1"), (1, "2")])
    assert differences(two, "threaded", crashed, right) == []
    (found,) = differences(two, "threaded", right, crashed)
    assert found.signature.actual == "DIED"


def test_a_cause_has_no_ids_names_or_numbers():
    """Ids differ in every answer. A name that the grammar made, and a number, do not tell two causes apart."""
    ids = "869acdcd-1154-45f8-bba8-f36dd40b4605", "ed8955ac-5e07-4f60-ac0a-bac72ebcc7b9"
    one = program("show(1)")
    assert not differences(one, "threaded", *(Answer([(0, f"returns {i!r} {'a1' * 12} <FuncWrapper>")]) for i in ids))
    found = [
        differences(
            one, "threaded", Answer([(0, f"fn{n} of u{n}_77: {n}, left")]), Answer([(0, f"fn{n} of u1_2: 5, right")])
        )
        for n in (3, 44)
    ]
    assert found[0][0].signature == found[1][0].signature == Signature("threaded", "made", "left", "right")


def test_the_option_that_is_tried_is_part_of_the_kind():
    """Each option has rules of its own: one that is wrong must not hide the others."""
    tried = [f"answer(lambda: ray.remote({name}=3)(lambda x=0: x))" for name in ("memory", "max_calls")]
    kinds = [kind_of(Statement("task.options", text)) for text in tried]
    assert kinds == ["task.options memory", "task.options max_calls"]
    assert kind_of(Statement("zoo.name: result", tried[0])) == "zoo.name"


def test_what_follows_a_hang_is_not_compared():
    """It was not run."""
    two = program("show(1)", "show(2)")
    (found,) = differences(two, "threaded", Answer([(0, "1"), (1, "2")]), Answer([(0, "HUNG")], "hung"))
    assert found.signature.actual == "HUNG"


def test_a_process_that_ends_is_compared_where_it_ended():
    """What it had shown before is gone, which is no difference."""
    two = program("show(1)", "show(2)", "show(3)")
    (found,) = differences(two, "threaded", Answer([(0, "1"), (1, "2"), (2, "3")]), Answer([(1, "DIED")], "died"))
    assert (found.statement, found.expected, found.actual) == (1, ["2"], ["DIED"])


def test_a_statement_is_cut_out_with_what_it_needs():
    """Neither search nor session is needed to leave the other kinds of a zoo's program out."""
    first = next(iter(class_zoo.programs()))
    last = next(s for s in first.statements if s.kind == "zoo.nested: result")
    before = first.statements[: first.statements.index(last) + 1]
    small = slice_of(first.with_statements(list(before)))
    assert [s.kind for s in small.statements] == ["zoo: setting", "zoo.nested: define", "zoo.nested: result"]


def test_both_modes_of_miniray_answer_a_program_alike(backends: dict[str, Several]):
    """Values, errors of tasks and actors, an error that nobody catches, and a name that is not there."""
    asked = program(
        "@ray.remote\ndef f(x):\n    return 1 / x",
        "answer(lambda: ray.get(f.remote(2)))",
        "answer(lambda: ray.get(f.remote(0)))",
        "ray.get(f.remote(0))",
        "show(nothing_of_the_kind)",
        "@ray.remote\nclass A:\n    def m(self):\n        return describe(self)\nanswer(lambda: ray.get(A.remote().m.remote()))",
    )
    threaded, local = (backends[mode].answer(asked) for mode in ("threaded", "local_mode"))
    assert threaded.lines == local.lines
    assert [text for _, text in threaded.lines] == [
        "returns 0.5",
        "raises RayTaskError(ZeroDivisionError): ZeroDivisionError('division by zero')",
        "UNCAUGHT RayTaskError(ZeroDivisionError): ZeroDivisionError('division by zero')",
        "UNCAUGHT NameError",
        "returns 'A'",
    ]


def test_a_program_that_hangs_or_dies_costs_only_itself(backends: dict[str, Several]):
    """The next one is answered, in another session if need be."""
    quick = Backend("threaded", sys.executable, timeout_s=1.0)
    try:
        hung = quick.answer(program("show(1)", "import threading\nthreading.Event().wait()", "show(2)"))
        assert (hung.end, hung.lines) == ("hung", [(0, "1"), (1, "HUNG")])
        died = quick.answer(program("show(2)", "import os\nos._exit(1)"))
        assert (died.end, died.lines) == ("died", [(1, "DIED")])
        assert quick.answer(program("show(3)")).lines == [(0, "3")]
    finally:
        quick.close()


def test_several_sessions_answer_at_once_and_what_a_program_leaves_is_cleaned_up():
    """Each program has a session to itself. A group, a named actor and a call that waits take nothing from the next."""
    both = Several([Backend("threaded", sys.executable) for _ in range(2)])
    leaves = program(
        "group = ray.util.placement_group([{'CPU': 4}])\nshow(group.wait(15))",
        "@ray.remote(num_cpus=0)\nclass A:\n    def wait(self):\n        __import__('threading').Event().wait()",
        "a = A.options(name='left').remote()\nb = a.wait.remote()",
    )
    looks = program("show(until(lambda: ray.available_resources().get('CPU'), 4.0), ray.util.list_named_actors())")
    try:
        with ThreadPoolExecutor(4) as threads:
            found = list(threads.map(both.answer, [leaves, leaves, looks, looks, leaves, looks]))
    finally:
        both.close()
    assert [backend.sessions for backend in both.backends] == [1, 1]
    assert [answer.lines for answer in found] == [
        [(0, "True")],
        [(0, "True")],
        *[[(0, "4.0 []")]] * 2,
        [(0, "True")],
        [(0, "4.0 []")],
    ]


def test_a_planted_difference_is_found_shrunk_and_filed(backends: dict[str, Several], tmp_path: Path):
    """The whole way: two programs with the same difference are one cause, seen twice."""
    # In local_mode a task has its caller's frames below it.
    stack = "[f.filename for f in __import__('traceback').extract_stack()]"
    planted = f"import ray\nshow(ray.get(ray.remote(lambda: any('differential' in f for f in {stack})).remote()))"
    report = Report(tmp_path)
    noise = [f"answer(lambda: ray.get(ray.put({n})))" for n in range(6)]
    found = Comparison(backends, "threaded", ["local_mode"], report)
    found.run([program(*noise, planted, *noise), program(planted), program(*noise)])
    assert report.programs == 3 and report.differences == 2
    ((signature, cause),) = report.causes.items()
    assert report.seen[signature] == 2 and len(cause.program.statements) == 1 and "extract_stack" in cause.program.text
    assert "extract_stack" in (tmp_path / "CAUSES.md").read_text(encoding="utf-8")
    assert report.curve() == [(250, 1)]


@pytest.mark.parametrize(
    ("context", "forked_with"),
    [
        ("{}", {}),
        ('{"env_vars": {"A": "1"}, "command_prefix": [], "java_jars": []}', {"A": "1"}),
        ('{"env_vars": {}, "command_prefix": ["cd /tmp &&"]}', None),
        ('{"py_executable": "uv run python"}', None),
    ],
)
def test_a_forked_worker_has_variables_and_nothing_else(context: str, forked_with: dict[str, str] | None) -> None:
    """Any other runtime environment starts a worker the usual way."""
    assert ray_workers.variables(["setup_worker.py", f"--serialized-runtime-env-context={context}"]) == forked_with
