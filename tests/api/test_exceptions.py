"""The tree of errors is that of Ray, a task's error also has the user's class, and every error can be sent."""

import builtins
import copy
import dataclasses
import gc
import inspect
import logging
import pickle
import sys
import weakref

import pytest

from miniray import exceptions
from miniray.exceptions import ActorDiedErrorContext, RayError, RayTaskError
from miniray.values.serialization import dumps, loads
from tests.interpreter import frees_memory

# Every public class of ray.exceptions in Ray 2.60, with its bases.
TREE = {
    "RayError": ["Exception"],
    "CrossLanguageError": ["RayError"],
    "TaskCancelledError": ["RayError"],
    "RayTaskError": ["RayError"],
    "LocalRayletDiedError": ["RayError"],
    "WorkerCrashedError": ["RayError"],
    "RayActorError": ["RayError"],
    "ActorDiedError": ["RayActorError"],
    "ActorUnavailableError": ["RayActorError"],
    "RaySystemError": ["RayError"],
    "AuthenticationError": ["RayError"],
    "UserCodeException": ["RayError"],
    "ObjectStoreFullError": ["RayError"],
    "OutOfDiskError": ["RayError"],
    "OutOfMemoryError": ["RayError"],
    "NodeDiedError": ["RayError"],
    "ObjectLostError": ["RayError"],
    "ObjectFetchTimedOutError": ["ObjectLostError"],
    "RpcError": ["RayError"],
    "ReferenceCountingAssertionError": ["ObjectLostError", "AssertionError"],
    "ObjectFreedError": ["ObjectLostError"],
    "OwnerDiedError": ["ObjectLostError"],
    "ObjectReconstructionFailedError": ["ObjectLostError"],
    "GetTimeoutError": ["RayError", "TimeoutError"],
    "PlasmaObjectNotAvailable": ["RayError"],
    "AsyncioActorExit": ["RayError"],
    "RuntimeEnvSetupError": ["RayError"],
    "TaskPlacementGroupRemoved": ["RayError"],
    "ActorPlacementGroupRemoved": ["RayError"],
    "PendingCallsLimitExceeded": ["RayError"],
    "TaskUnschedulableError": ["RayError"],
    "ActorUnschedulableError": ["RayError"],
    "ObjectRefStreamEndOfStreamError": ["RayError"],
    "StreamingGeneratorReplayInconsistentError": ["RaySystemError"],
    "OufOfBandObjectRefSerializationException": ["RayError"],
    "RayChannelError": ["RaySystemError"],
    "RayChannelTimeoutError": ["RayChannelError", "TimeoutError"],
    "RayCgraphCapacityExceeded": ["RaySystemError"],
    "RayDirectTransportError": ["RaySystemError"],
    "UnserializableException": ["RayError"],
    "ActorAlreadyExistsError": ["ValueError", "RayError"],
    "ActorHandleNotFoundError": ["ValueError", "RayError"],
}


def test_the_tree_is_that_of_ray():
    """Every name has the same bases in the same order. miniray adds one class."""
    found = {
        name: [base.__name__ for base in thing.__bases__]
        for name, thing in vars(exceptions).items()
        if inspect.isclass(thing) and issubclass(thing, RayError)
    }
    assert found.pop("DeadlockError") == ["RayError"]
    assert found == TREE


# Calls with which programs make errors, and the attributes that the error has in real Ray.
EXAMPLES = [
    (lambda e: e.TaskCancelledError(), {"task_id": None, "error_message": None}),
    (lambda e: e.TaskCancelledError("ab12", error_message="by hand"), {"task_id": "ab12", "error_message": "by hand"}),
    (lambda e: e.GetTimeoutError("3 objects are missing"), {}),
    (lambda e: e.WorkerCrashedError(), {}),
    (
        lambda e: e.RayActorError("ab", "gone", True, True),
        {"actor_id": "ab", "error_msg": "gone", "actor_init_failed": True, "preempted": True},
    ),
    (lambda e: e.ActorDiedError(), {"actor_id": None, "actor_init_failed": False, "preempted": False}),
    (
        lambda e: e.ActorDiedError(ActorDiedErrorContext("cd", "Counter", "It was killed.", name="one", pid=7)),
        {"actor_id": "cd", "actor_init_failed": False},
    ),
    (lambda e: e.ActorUnavailableError("restarting", b"\x12" * 16), {"actor_id": "12" * 16}),
    (
        lambda e: e.ObjectLostError("ef", owner_address=b"o", call_site="line 3"),
        {"object_ref_hex": "ef", "owner_address": b"o", "call_site": "line 3"},
    ),
    (lambda e: e.OwnerDiedError("ef", None, ""), {"object_ref_hex": "ef"}),
    (lambda e: e.ObjectFreedError("ef", None, ""), {}),
    (lambda e: e.ObjectFetchTimedOutError("ef", None, ""), {}),
    (lambda e: e.ReferenceCountingAssertionError("ef", None, ""), {}),
    (
        lambda e: e.ObjectReconstructionFailedError("ef", reason="OBJECT_UNRECONSTRUCTABLE_PUT"),
        {"reason": "OBJECT_UNRECONSTRUCTABLE_PUT"},
    ),
    (lambda e: e.ObjectStoreFullError("needs 9 bytes"), {}),
    (lambda e: e.OutOfDiskError("needs 9 bytes"), {}),
    (lambda e: e.OutOfMemoryError("too much"), {"message": "too much"}),
    (lambda e: e.NodeDiedError("node 1"), {"message": "node 1"}),
    (lambda e: e.RpcError("refused", rpc_code=14), {"message": "refused", "rpc_code": 14}),
    (lambda e: e.AuthenticationError("no token"), {"message": "no token"}),
    (lambda e: e.RaySystemError("broken", "the traceback"), {"client_exc": "broken", "traceback_str": "the traceback"}),
    (lambda e: e.RayChannelTimeoutError("slow"), {"client_exc": "slow"}),
    (lambda e: e.RuntimeEnvSetupError(), {"error_message": None}),
    (lambda e: e.TaskUnschedulableError("no node"), {"error_message": "no node"}),
    (lambda e: e.ActorUnschedulableError(error_message="no node"), {"error_message": "no node"}),
    (lambda e: e.ActorAlreadyExistsError("name 'one'"), {"error_message": "name 'one'"}),
    (lambda e: e.ActorHandleNotFoundError("old session"), {"error_message": "old session"}),
    (lambda e: e.TaskPlacementGroupRemoved(), {}),
    (lambda e: e.ActorPlacementGroupRemoved(), {}),
    (lambda e: e.LocalRayletDiedError(), {}),
    (lambda e: e.UnserializableException("the traceback"), {}),
    (lambda e: e.CrossLanguageError(OfJava("JAVA", "NullPointerException")), {}),
    (lambda e: e.PendingCallsLimitExceeded("4 calls are waiting"), {}),
    (lambda e: e.DeadlockError("a waits for b, b for a"), {}),
    (
        lambda e: RayTaskError("job", "Traceback ...", ValueError("v"), pid=3, ip="10.0.0.1"),
        {"function_name": "job", "traceback_str": "Traceback ...", "pid": 3, "ip": "10.0.0.1", "proctitle": "ray::job"},
    ),
]


@dataclasses.dataclass
class OfJava:
    language: str
    formatted_exception_string: str


@pytest.mark.parametrize("make, attributes", EXAMPLES)
def test_a_copy_of_an_error_has_its_class_attributes_and_text(make, attributes):
    """Pickled, copied or deeply copied, whatever arguments its constructor needs. Its notes are copied too."""
    error = make(exceptions)
    error.__dict__["__notes__"] = ["look here"]
    for found in error, pickle.loads(pickle.dumps(error)), copy.copy(error), copy.deepcopy(error):
        assert type(found) is type(error)
        assert {name: getattr(found, name) for name in attributes} == attributes
        assert str(found) == str(error) != ""
        assert repr(found.args) == repr(error.args)
        assert found.__notes__ == ["look here"]


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda e: e.TaskCancelledError("ab12", "by hand"), ["ab12", "cancelled", "by hand"]),
        (
            lambda e: e.ActorDiedError(
                ActorDiedErrorContext("cd", "Counter", "It was killed.", "one", never_started=True)
            ),
            ["Counter", "cd", "one", "It was killed.", "before its constructor"],
        ),
        (lambda e: e.ActorUnavailableError("restarting", b"\x12" * 16), ["1212", "restarting"]),
        (lambda e: e.ObjectLostError("ef", None, "line 3"), ["ef", "line 3", "lineage"]),
        (
            lambda e: e.ObjectReconstructionFailedError("ef", "OBJECT_UNRECONSTRUCTABLE_PUT"),
            ["ef", "OBJECT_UNRECONSTRUCTABLE_PUT", "`put`"],
        ),
        (lambda e: e.ObjectReconstructionFailedError("ef", reason_message="the moon"), ["ef", "the moon"]),
        (lambda e: e.ObjectStoreFullError("needs 9 bytes"), ["needs 9 bytes", "object_store_memory"]),
        (lambda e: e.UnserializableException("KeyError: 'k'"), ["KeyError: 'k'", "__reduce__"]),
        (lambda e: e.RaySystemError("broken", "line 3"), ["broken", "line 3"]),
        (lambda e: e.RuntimeEnvSetupError("no pip"), ["runtime environment", "no pip"]),
    ],
)
def test_a_text_has_the_ids_the_cause_and_what_to_do(make, words):
    """The text contains everything that the constructor was given."""
    text = str(make(exceptions))
    assert [word for word in words if word not in text] == []


TEXT = """Traceback (most recent call last):
  File "/home/ann/job.py", line 3, in job
    return inner(x)
           ^^^^^^^^
  File "/home/ann/job.py", line 9, in inner
    raise ValueError("bad")
ValueError: bad
"""


def task_error(cause, **where):
    return RayTaskError("job", TEXT, cause, pid=7, ip="10.0.0.1", **where)


LOST = [exceptions.ObjectLostError, *exceptions.ObjectLostError.__subclasses__()]


@pytest.mark.parametrize("lost", LOST, ids=lambda cls: cls.__name__)
def test_an_error_of_a_lost_object_says_which_whose_and_from_where(lost):
    """All three must be given, as in Ray; only a failed reconstruction can do without them."""
    assert lost("ef", None, "line 3").object_ref_hex == "ef"
    for arguments in (), ("ef",), ("ef", None):
        if lost is not exceptions.ObjectReconstructionFailedError or not arguments:
            with pytest.raises(TypeError):
                lost(*arguments)


def test_the_text_of_a_task_error_goes_from_the_task_to_the_error():
    """The first line names the function, its worker and node; the last line is the error's own."""
    lines = str(task_error(ValueError("bad"))).splitlines()
    assert lines[0] == "ray::job() (pid=7, ip=10.0.0.1)"
    assert lines[1:] == TEXT.splitlines()[1:]


def test_the_text_names_the_actor_of_a_method():
    """With its id and its repr."""
    error = task_error(ValueError("bad"), actor_repr="<Counter at 3>", actor_id="ab")
    assert str(error).splitlines()[0] == "ray::job() (pid=7, ip=10.0.0.1, actor_id=ab, repr=<Counter at 3>)"


def test_the_runtimes_own_frames_are_left_out_of_the_text():
    """With their source lines and carets. The frames of the user and of util/ stay."""
    package = exceptions.__file__.rpartition("/")[0]
    text = (
        f"Traceback (most recent call last):\n"
        f'  File "{package}/runtime/worker.py", line 1, in run\n    go()\n    ^^^^\n'
        f'  File "{package}/util/queue.py", line 2, in put\n    raise Full\nqueue.Full\n'
    )
    assert str(RayTaskError("job", text, ValueError())).splitlines()[1:] == [
        f'  File "{package}/util/queue.py", line 2, in put',
        "    raise Full",
        "queue.Full",
    ]


def test_a_text_without_a_traceback_is_shown_as_it_is():
    """The header stands in place of the line "Traceback ...", as in Ray."""
    assert str(RayTaskError("job", "ValueError: bad", ValueError())) == "ValueError: bad"


@pytest.mark.parametrize(
    "make, refused",
    [
        (lambda e: e.RayTaskError("f", None, ValueError()), AssertionError),
        (lambda e: e.ActorDiedError("gone"), AssertionError),
        (lambda e: e.ActorUnavailableError("restarting", "12ab"), TypeError),
        (lambda e: e.ActorUnavailableError("restarting", b"12ab"), ValueError),
        (lambda e: e.ObjectLostError("ef", None, None), AttributeError),
        (lambda e: str(e.AuthenticationError(5)), TypeError),
    ],
)
def test_wrong_arguments_of_an_error_are_refused_where_ray_refuses_them(make, refused):
    with pytest.raises(refused):
        make(exceptions)


@pytest.mark.parametrize("nothing", [None, "", b"", 0, {}, []])
def test_anything_false_is_no_cause_of_an_actors_death(nothing):
    """So does Ray."""
    assert str(exceptions.ActorDiedError(nothing)) == exceptions.ActorDiedError.BASE_ERROR_MSG


class OfAProgram(RayTaskError):
    def __init__(self, value):
        super().__init__("f", "Traceback (most recent call last):\nValueError", ValueError(value))


class WithItsArguments(exceptions.RayError):
    def __init__(self, value, more=None):
        super().__init__(value)
        self.more = more


def test_a_programs_own_subclass_is_rebuilt_from_its_args():
    """Like every exception of a program. If its constructor wants something else, it cannot be rebuilt, as in Ray."""
    copied = pickle.loads(pickle.dumps(WithItsArguments(1, more=2)))
    assert (type(copied), copied.args, copied.more) == (WithItsArguments, (1,), 2)
    with pytest.raises(TypeError):
        pickle.loads(pickle.dumps(OfAProgram(1)))


class Quota(Exception):
    def __init__(self, user, *, limit):
        super().__init__(f"{user} is over {limit}")
        self.user, self.limit = user, limit

    def __reduce__(self):
        return _quota, (self.user, self.limit)

    def hint(self):
        return f"raise {self.limit}"


def _quota(user, limit):
    return Quota(user, limit=limit)


class Slotted(Exception):
    __slots__ = ("code",)

    def __init__(self, code):
        super().__init__(code)
        self.code = code

    def __reduce__(self):
        return Slotted, (self.code,)


class Loud(type):
    pass


class WithMetaclass(Exception, metaclass=Loud):
    pass


class Halt(BaseException):
    pass


CAUSES = [
    ValueError("v", 1),
    KeyError("k"),
    FileNotFoundError(2, "no", "f"),
    StopIteration(5),
    KeyboardInterrupt("x"),
    GeneratorExit(),
    SystemExit(3),
    UnicodeDecodeError("utf8", b"x", 0, 1, "r"),
    SyntaxError("m", ("f", 1, 2, "t")),
    ImportError("m", name="n"),
    Quota("ann", limit=3),
    Slotted(4),
    WithMetaclass("m"),
    Halt("h"),
    exceptions.TaskCancelledError("ab"),
    exceptions.WorkerCrashedError(),
    exceptions.GetTimeoutError("late"),
]


@pytest.mark.parametrize("cause", CAUSES, ids=lambda cause: type(cause).__name__)
def test_a_task_error_is_also_of_the_users_class(cause):
    """It is caught as either class, is named after both, has the cause as its only argument, and can be sent."""
    plain = task_error(cause)
    error = plain.as_instanceof_cause()
    for found in error, loads(dumps(error)), copy.copy(error), copy.deepcopy(error):
        assert isinstance(found, RayTaskError) and isinstance(found, type(cause))
        assert type(found).__name__ == f"RayTaskError({type(cause).__name__})"
        assert type(found).__bases__ == (RayTaskError, type(cause))
        assert type(found.cause) is type(cause) and found.args == (found.cause,)
        assert str(found) == str(plain)
    with pytest.raises(type(cause)):
        raise error


def test_the_error_has_the_attributes_of_its_cause():
    """Including methods and slots; those of the task error itself are hidden, as in Ray."""
    error = task_error(Quota("ann", limit=3)).as_instanceof_cause()
    assert (error.user, error.limit, error.hint()) == ("ann", 3, "raise 3")
    assert task_error(Slotted(4)).as_instanceof_cause().code == 4
    for hidden in "function_name", "pid", "traceback_str", "colour":
        with pytest.raises(AttributeError, match=hidden):
            getattr(error, hidden)


def test_plain_pickle_refuses_an_error_of_two_classes():
    """As in Ray: nobody can import its class. The cause can be pickled, and miniray's own pickler sends the error."""
    error = task_error(ValueError("v")).as_instanceof_cause()
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        with pytest.raises(pickle.PicklingError, match=r"RayTaskError\(ValueError\)"):
            pickle.dumps(error, protocol)
    assert pickle.loads(pickle.dumps(error.cause)).args == ("v",)
    assert str(loads(dumps(error))) == str(error)


def test_a_crash_has_a_reason_and_no_arguments():
    """As in Ray, whose phrase its text begins with."""
    crash = exceptions.WorkerCrashedError()
    assert crash.args == () and str(crash).startswith("The worker died unexpectedly while executing this task. ")
    crash.reason = "it called os._exit(1)"
    assert "it called os._exit(1)" in str(pickle.loads(pickle.dumps(crash)))


def test_an_attribute_added_to_the_error_is_sent_with_it():
    """By a program that caught it, such as a note."""
    error = task_error(ValueError("v")).as_instanceof_cause()
    error.colour = "red"
    assert loads(dumps(error)).colour == "red"


@pytest.mark.parametrize(
    "cause",
    [Exception("e"), BaseException("b"), RayError("r"), RayTaskError("inner", "text", ValueError())],
    ids=lambda c: type(c).__name__,
)
def test_no_class_is_made_if_the_error_is_of_the_causes_class_already(cause):
    """`except Exception` catches the plain error."""
    error = task_error(cause)
    assert error.as_instanceof_cause() is error


class NewWantsTwo(Exception):
    def __new__(cls, a, b):
        return super().__new__(cls, a, b)


class Final(Exception):
    def __init_subclass__(cls, **kwargs):
        raise TypeError("final")


class OwnCause(Exception):
    @property
    def cause(self):
        return 5


@pytest.mark.parametrize("cause", [NewWantsTwo(1, 2), Final("x"), OwnCause("x")], ids=lambda c: type(c).__name__)
def test_a_class_that_cannot_be_subclassed_gives_the_plain_error(cause, caplog):
    """A warning names the class and the task."""
    error = task_error(cause)
    with caplog.at_level(logging.WARNING, logger="miniray.exceptions"):
        assert error.as_instanceof_cause() is error
    assert type(cause).__name__ in caplog.text and "job" in caplog.text
    with pytest.raises((TypeError, AttributeError)):
        error.make_dual_exception_instance()


def test_each_raise_has_its_own_error_but_the_same_class():
    """So tracebacks do not grow, and `type(a) is type(b)`."""
    plain = task_error(ValueError("v"))
    one, two = plain.as_instanceof_cause(), plain.as_instanceof_cause()
    assert one is not two and type(one) is type(two)


@frees_memory
def test_a_dual_class_is_freed_with_its_last_error():
    """The table of dual classes does not keep the user's class alive."""
    kind = type("Passing", (Exception,), {})
    watched = weakref.ref(kind)
    task_error(kind("x")).as_instanceof_cause()
    del kind
    gc.collect()  # the dual class,
    gc.collect()  # and then the class that only its entry in the table kept
    assert watched() is None


def test_an_error_of_an_argument_names_both_tasks():
    """The text goes from the task that did not run to the task that failed. The cause is the first exception."""
    first = task_error(KeyError("k")).as_instanceof_cause()
    error = RayTaskError.from_dependency(first, "consume", pid=8).as_instanceof_cause()
    lines = str(error).splitlines()
    assert lines[0].startswith("ray::consume() (pid=8")
    assert "input arguments" in lines[1]
    assert "ray::job()" in lines[2] and lines[-1] == "ValueError: bad"
    assert isinstance(error, KeyError) and error.cause is first.cause


def test_a_task_whose_argument_was_lost_in_a_crash_has_an_error_of_both_classes():
    """As in Ray: RayTaskError(WorkerCrashedError)."""
    error = RayTaskError.from_dependency(exceptions.WorkerCrashedError(), "consume").as_instanceof_cause()
    assert isinstance(error, exceptions.WorkerCrashedError) and isinstance(error, RayTaskError)


def test_a_failed_constructor_is_the_cause_of_the_actors_death():
    """The actor's error contains the text of the constructor's error, and `actor_init_failed` is set."""
    error = exceptions.ActorDiedError.from_task_error(task_error(ValueError("bad"), actor_id="ab", actor_repr="C"))
    assert error.actor_init_failed and error.actor_id == "ab"
    assert "ray::job()" in str(error) and "ValueError: bad" in str(error)


def test_the_list_of_stored_errors_holds_only_errors():
    """It has as many items as Ray's. Programs loop over it."""
    assert len(exceptions.RAY_EXCEPTION_TYPES) == 30
    assert all(issubclass(kind, RayError) for kind in exceptions.RAY_EXCEPTION_TYPES)


needs_groups = pytest.mark.skipif(sys.version_info < (3, 11), reason="exception groups came with Python 3.11")


@needs_groups
def test_a_group_is_split_by_its_members():
    """`except*` catches each of them once. The message and the members are those of the cause."""
    group = builtins.ExceptionGroup("several", [ValueError("v"), KeyError("k")])
    error = task_error(group).as_instanceof_cause()
    assert isinstance(error, builtins.ExceptionGroup) and isinstance(error, RayTaskError)
    assert (error.message, error.exceptions, error.args) == ("several", group.exceptions, (group,))
    caught = {}
    exec(
        "try:\n    raise error\n"
        "except* ValueError as part:\n    caught['ValueError'] = part.exceptions\n"
        "except* KeyError as part:\n    caught['KeyError'] = part.exceptions\n",
        {"error": error, "caught": caught},
    )
    assert caught == {"ValueError": group.exceptions[:1], "KeyError": group.exceptions[1:]}


@needs_groups
def test_a_users_group_class_with_another_constructor_is_kept():
    """It is made from its message and members, without the user's own __new__ and __init__."""
    base = builtins.ExceptionGroup

    class Many(base):
        def __new__(cls, members):
            return super().__new__(cls, "many", members)

        def __init__(self, members):
            self.count = len(members)

    error = task_error(Many([ValueError("v")])).as_instanceof_cause()
    assert isinstance(error, Many) and error.count == 1 and error.message == "many"


@needs_groups
def test_a_group_of_base_exceptions_gives_the_plain_error():
    """As in Ray, because it cannot be made from one argument."""
    error = task_error(builtins.BaseExceptionGroup("g", [KeyboardInterrupt()]))
    assert error.as_instanceof_cause() is error
