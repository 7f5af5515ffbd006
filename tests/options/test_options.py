"""miniray refuses a bad option at the same moment, and with the same class of error, as real Ray 2.60.

The two tables were recorded by giving every value to real Ray. A line holds an option, what happened at each moment,
and the values for which it happened. A moment has one letter:

    V ValueError, T TypeError, A AssertionError, N AttributeError, O OverflowError, - accepted, . not reached
"""

import warnings

import pytest

from miniray.core.records import UNIT
from miniray.options import at_call, when_given
from miniray.options.init_arguments import check_init
from miniray.options.resources import STEPS_PER_UNIT, actor_resources, requested_resources

LETTERS = {"ValueError": "V", "TypeError": "T", "AssertionError": "A", "AttributeError": "N", "OverflowError": "O"}

# For a function: @remote(...), .options(...), then .remote(); the same three for a class.
OF_TASKS_AND_ACTORS = """
num_cpus ------ None ; 0 ; 1 ; 0.5 ; True ; 1.5 ; 0.0001 ; 1000000000.0 ; 100000000000000000000 ; -0.0 ; 1.00001
num_cpus VV.VV. -1 ; -0.1 ; 1e-05 ; 9e-05 ; nan ; -1e-05
num_cpus TT.TT. '2' ; [1] ; (2+0j)
num_cpus OO.OO. inf
num_gpus ------ None ; 0 ; 1 ; 0.5 ; 2 ; 2.0 ; True
num_gpus --V--V 1.5 ; 1.0001
num_gpus VV.VV. -1 ; 1e-05
num_gpus TT.TT. '1'
memory ------ None ; 0 ; 1 ; 1.5 ; 0.5 ; 1180591620717411303424 ; True
memory VV.VV. -5
memory TT.TT. '1g'
object_store_memory ------ None
object_store_memory VV.--- 0 ; 1
object_store_memory VV.VV. -1
object_store_memory TT.TT. 1.5 ; 'x'
resources ------ None ; {} ; {'a': 1} ; {'a': 0} ; {'a': 1.5} ; {'a': 0.5} ; {'a': True} ; {'': 1} ; {'TPU': 1}
resources ------ {'node:x': 1} ; {'a': 1.00001}
resources VV.VV. {'a': -1} ; {'CPU': 1} ; {'GPU': 1} ; {'a': 1e-05} ; {'TPU': 3} ; {'TPU': 0.5}
resources VV.VV. {'neuron_cores': 0.5} ; {'HPU': 1.5} ; {'a': nan}
resources TT.TT. {'a': '1'} ; {'a': None} ; [1] ; 'a' ; ('a', 1) ; {'a': [1]}
resources --V--V {'memory': 1} ; {'object_store_memory': 1} ; {'bundle': 1} ; {'NPU': 1.5}
resources --N--N {1: 1}
name ------ None ; 'x'
name -----V ''
name TT.TT. 3 ; b'x'
accelerator_type ------ None ; '' ; 'V100'
accelerator_type TT.TT. 3
runtime_env ------ None ; {} ; {'env_vars': {'A': '1'}} ; {'colour': 1}
runtime_env TT.TT. {'env_vars': {'A': 1}} ; 'x' ; [] ; {'pip': 3} ; {'env_vars': [1]} ; {'working_dir': 3}
runtime_env TT.TT. {'env_vars': {1: 'x'}}
scheduling_strategy ------ None ; 'DEFAULT' ; 'SPREAD'
scheduling_strategy --V--V 'spread' ; ''
scheduling_strategy TT.TT. 3 ; {}
placement_group ------ None ; 'default'
placement_group --A--A 'x'
placement_group TT.TT. 3
placement_group_bundle_index ------ -1
placement_group_bundle_index --V--V 0 ; -2
placement_group_bundle_index TT.TT. None ; 'x' ; 1.0
placement_group_capture_child_tasks ------ None ; True ; False
placement_group_capture_child_tasks TT.TT. 1 ; 'x'
enable_task_events ------ True ; False
enable_task_events TT.TT. None ; 1
_labels ------ None ; {} ; {'a': 'b'}
_labels TT.TT. []
_labels --V--V {'a': 1}
_metadata VV.VV. None ; {} ; 1
label_selector ------ None ; {} ; {'a': 'b'} ; {'a': '!b'} ; {'a': 'in(b,c)'} ; {'a': '!in(b, c)'} ; {'a/b': 'c'}
label_selector ------ {'a': ''} ; {'ray.io/x': 'y'}
label_selector VV.VV. {'a': 'in()'} ; {'-a': 'b'} ; {'a': 'b c'} ; {'a': 'x' * 64}
label_selector TT.TT. {'a': 1} ; {1: 'a'} ; []
label_selector --V--V {'a': None}
fallback_strategy ------ None ; [] ; [{'label_selector': {'a': 'b'}}] ; [{'label_selector': None}]
fallback_strategy VV.VV. [{}] ; [{'memory': 1}] ; [1] ; [{'label_selector': [1]}]
fallback_strategy VV.VV. [{'label_selector': {'a': 'b c'}}]
fallback_strategy TT.TT. {}
max_calls -V-VV. None ; 0 ; 1 ; True
max_calls VV.VV. -1
max_calls TT.VV. 1.5 ; 'x'
max_retries --TVV. None
max_retries ---VV. 0 ; 1 ; -1 ; True
max_retries VV.VV. -2
max_retries TT.VV. 1.5 ; 'x'
num_returns ---VV. None ; 0 ; 1 ; 5 ; True ; False
num_returns VV.VV. -1 ; 'streaming' ; 'dynamic'
num_returns TT.VV. 1.5 ; 'x' ; '' ; [1]
retry_exceptions ---VV. True ; False ; [] ; [ValueError] ; (ValueError,)
retry_exceptions TT.VV. None ; 'yes' ; ValueError ; 1 ; {ValueError}
retry_exceptions VV.VV. [1] ; [ValueError, 'x'] ; ['x'] ; [KeyboardInterrupt] ; [BaseException]
_generator_backpressure_num_objects ---VV. None ; 1 ; -1 ; -5
_generator_backpressure_num_objects VV.VV. 0
_generator_backpressure_num_objects TT.VV. 'x' ; 1.5
_num_objects_per_yield -V-VV. None ; 2
_num_objects_per_yield ---VV. 1
_num_objects_per_yield VV.VV. 0 ; -1
_num_objects_per_yield TV.VV. 'x'
concurrency_groups VV.-V- None ; {} ; {'io': 2} ; [] ; {'io': 0}
concurrency_groups VV.-VT {'io': 'x'} ; [{'name': 'a', 'max_concurrency': 2}]
concurrency_groups VV.-VO {'io': -1}
concurrency_groups VV.TT. 3
concurrency_groups VV.-VN {1: 2}
enable_tensor_transport VV.--- None ; True
enable_tensor_transport VV.TT. 1
lifetime VV.--- None ; 'detached' ; 'non_detached'
lifetime VV.VV. 'weekend' ; ''
lifetime VV.TT. 3
max_concurrency VV.--- None ; 0 ; 1 ; 5 ; True
max_concurrency VV.VV. -1
max_concurrency VV.TT. 1.5 ; 'x'
max_restarts VV.T-T None
max_restarts VV.--- 0 ; 1 ; -1
max_restarts VV.VV. -2
max_restarts VV.TT. 'x' ; 1.5
max_task_retries VV.--T None
max_task_retries VV.--- 0 ; 1 ; -1
max_task_retries VV.VV. -2
max_task_retries VV.TT. 'x'
max_pending_calls VV.--T None
max_pending_calls VV.--- -1 ; 0 ; 1
max_pending_calls VV.VV. -2
max_pending_calls VV.TT. 'x'
namespace VV.--- None ; 'x'
namespace VV.--V ''
namespace VV.TT. 3
get_if_exists VV.VV. True
get_if_exists VV.--- False
get_if_exists VV.TT. None ; 1
allow_out_of_order_execution VV.--- None ; True ; False
allow_out_of_order_execution VV.TT. 1
_actor_generator_backpressure_num_objects VV.--- None ; -1 ; 1
_actor_generator_backpressure_num_objects VV.VV. 0 ; -2
_actor_generator_backpressure_num_objects VV.TT. 'x'
colour VV.VV. None ; 1
"""

# For a method: @method(...), handle.method.options(...), .remote() of the latter, .remote() of the former.
OF_METHODS = """
num_cpus A-T. 1
resources A-T. {}
name A-T. None ; 3
name A--. '' ; 'x'
enable_task_events ---- True ; None ; 1
max_retries A-T. 1
num_returns ---- None ; 0 ; 1 ; 1.5 ; 2
num_returns VV.. -1 ; 'streaming' ; 'dynamic' ; -5
num_returns --TT 'x'
retry_exceptions ---- True ; None ; [ValueError] ; [1]
retry_exceptions --AA 'x'
_generator_backpressure_num_objects ---- None ; 0 ; 1 ; -1
_generator_backpressure_num_objects --TT 'x'
_num_objects_per_yield -V.- None ; 1
max_task_retries ---- None ; 0 ; -1 ; -2 ; 2 ; 1.5
max_task_retries --TT 'x'
colour A-T. 1
concurrency_group ---. None ; '' ; 'nope'
concurrency_group --T. 3
tensor_transport N--. None
tensor_transport VV.. 'x'
tensor_transport NN.. 3
"""


def lines(table):
    return [line.split(" ", 2) for line in table.strip().splitlines()]


def case(line):
    return line[0] + " " + line[2]


def letter(call):
    """Call it, and return what happened as a letter of the tables."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        try:
            call()
        except Exception as error:
            return LETTERS[type(error).__name__]
    return "-"


def answers(moments, recorded):
    """Return the letters of these calls, with "." where the recording did not reach the call."""
    return "".join("." if seen == "." else letter(call) for call, seen in zip(moments, recorded, strict=True))


def values(text):
    return [eval(value, {"nan": float("nan"), "inf": float("inf")}) for value in text.split(" ; ")]


def submit_task(options):
    requested_resources(options, 1)
    at_call.check_task_call(options)


def create_actor(options):
    actor_resources(options)
    at_call.check_actor_call(options)


def moments_of_tasks_and_actors(given):
    return [
        lambda: when_given.task_options(given, None, False),
        lambda: when_given.task_options(given, {}, False),
        lambda: submit_task(given),
        lambda: when_given.actor_options(given),
        lambda: when_given.actor_options(given, {}),
        lambda: create_actor(given),
    ]


def moments_of_methods(given):
    return [
        lambda: when_given.method_decorator_options(given, False),
        lambda: when_given.method_options(given, False),
        lambda: at_call.check_method_call(given),
        lambda: at_call.check_method_call(given),
    ]


@pytest.mark.parametrize("line", lines(OF_TASKS_AND_ACTORS), ids=case)
def test_an_option_of_tasks_and_actors_is_refused_when_ray_refuses_it(line):
    """At the decorator, at .options() and at .remote(), for a plain function and for a class."""
    name, recorded, text = line
    for value in values(text):
        assert answers(moments_of_tasks_and_actors({name: value}), recorded) == recorded, value


@pytest.mark.parametrize("line", lines(OF_METHODS), ids=case)
def test_an_option_of_methods_is_refused_when_ray_refuses_it(line):
    """At @method, at .options() and at the two calls, for a method that does not yield."""
    name, recorded, text = line
    for value in values(text):
        assert answers(moments_of_methods({name: value}), recorded) == recorded, value


@pytest.mark.parametrize(
    "value, recorded",
    [
        (None, "---"),
        (0, "---"),
        (5, "---"),
        ("streaming", "---"),
        ("dynamic", "---"),
        (-1, "VV."),
        ("x", "TT."),
    ],
)
def test_a_generator_function_may_stream(value, recorded):
    """A function that yields may have num_returns="streaming" or "dynamic"; a plain function may not."""
    given = {"num_returns": value}
    moments = [
        lambda: when_given.task_options(given, None, True),
        lambda: when_given.task_options(given, {}, True),
        lambda: submit_task(given),
    ]
    assert answers(moments, recorded) == recorded


def test_the_error_names_the_option_and_what_is_allowed():
    """For an unknown name the text lists the options; for a wrong type it lists the types."""
    with pytest.raises(
        ValueError, match="Invalid option keyword colour for remote functions.*max_retries, num_returns"
    ):
        when_given.task_options({"colour": "red"})
    with pytest.raises(ValueError, match="Invalid option keyword num_returns for actors"):
        when_given.actor_options({"num_returns": 2})
    with pytest.raises(
        TypeError, match="The type of keyword 'num_cpus' must be .*float.*, but received type <class 'str'>.*'two'"
    ):
        when_given.task_options({"num_cpus": "two"})
    with pytest.raises(TypeError, match="'retry_exceptions' must be .*bool.*list.*tuple.*, but received.*'yes'"):
        when_given.task_options({"retry_exceptions": "yes"})
    with pytest.raises(AssertionError, match="'num_cpus'.*concurrency_group"):
        when_given.method_decorator_options({"num_cpus": 1})


def test_the_first_bad_option_is_reported():
    """Options are checked in the order in which they were given."""
    with pytest.raises(TypeError, match="num_cpus"):
        when_given.task_options({"num_cpus": "x", "colour": 1})
    with pytest.raises(ValueError, match="colour"):
        when_given.task_options({"colour": 1, "num_cpus": "x"})


def test_options_that_belong_to_the_decorator_are_refused_by_dot_options():
    """max_calls and concurrency_groups cannot be given per call; _num_objects_per_yield can only be repeated."""
    with pytest.raises(ValueError, match="max_calls"):
        when_given.task_options({"max_calls": 1}, {})
    with pytest.raises(ValueError, match="concurrency_groups"):
        when_given.actor_options({"concurrency_groups": {"io": 1}}, {})
    with pytest.raises(ValueError, match="_num_objects_per_yield"):
        when_given.task_options({"_num_objects_per_yield": 2}, {"_num_objects_per_yield": 3})
    assert when_given.task_options({"_num_objects_per_yield": 3}, {"_num_objects_per_yield": 3})


def test_get_if_exists_needs_a_name():
    """The name may come from the decorator or from `.options()`."""
    with pytest.raises(ValueError, match="name"):
        when_given.actor_options({"get_if_exists": True})
    with pytest.raises(ValueError, match="name"):
        when_given.actor_options({"get_if_exists": True, "name": ""})
    assert when_given.actor_options({"get_if_exists": True}, {"name": "one"}) == {"get_if_exists": True}


def test_a_placement_group_and_a_strategy_exclude_each_other():
    """Both together are refused, also if one of them was given to the decorator."""
    with pytest.raises(ValueError, match="Placement groups should be specified via the scheduling_strategy option"):
        when_given.task_options({"placement_group": "x", "scheduling_strategy": "SPREAD"})
    with pytest.raises(ValueError, match="Placement groups should be specified via the scheduling_strategy option"):
        when_given.actor_options({"placement_group": "x"}, {"scheduling_strategy": "SPREAD"})
    assert when_given.task_options({"placement_group": None, "scheduling_strategy": "SPREAD"})


def test_checked_options_are_a_copy():
    """If the caller later changes a list or dict that was given, the options stay as they were."""
    amounts, errors = {"disk": 1}, [ValueError]
    checked = when_given.task_options({"resources": amounts, "retry_exceptions": errors, "num_cpus": None})
    amounts["disk"] = 2
    errors.append(KeyError)
    assert checked == {"resources": {"disk": 1}, "retry_exceptions": (ValueError,), "num_cpus": None}


def test_a_deprecated_option_warns_at_the_callers_line():
    """num_returns="dynamic" is deprecated; the warning names the file of the user's code."""
    with pytest.warns(DeprecationWarning, match="dynamic") as caught:
        when_given.task_options({"num_returns": "dynamic"}, None, True)
    assert caught[0].filename == __file__


def test_a_strategy_is_recognised_by_its_marker():
    """An object whose class has `__miniray_strategy__ = True` is a scheduling strategy; others have a wrong type."""

    class Somewhere:
        __miniray_strategy__ = True

    at_call.check_scheduling_strategy(Somewhere())
    assert when_given.task_options({"scheduling_strategy": Somewhere()})
    at_call.check_task_call({"scheduling_strategy": Somewhere()})
    with pytest.raises(TypeError, match="scheduling_strategy"):
        at_call.check_scheduling_strategy(Somewhere)
    with pytest.raises(ValueError, match="'nearby'"):
        at_call.check_scheduling_strategy("nearby")


# (options, resources): the answers of get_assigned_resources() in a task and in an actor of real Ray.
@pytest.mark.parametrize(
    "options, asked",
    [
        ({}, {"CPU": 1.0}),
        ({"num_cpus": None}, {}),
        ({"num_cpus": 0}, {}),
        ({"num_cpus": 0, "resources": {"a": 0}}, {}),
        ({"num_gpus": 1}, {"CPU": 1.0, "GPU": 1.0}),
        ({"num_gpus": 0}, {"CPU": 1.0}),
        ({"num_cpus": 2, "num_gpus": 0.25}, {"CPU": 2.0, "GPU": 0.25}),
        ({"memory": 1000.9}, {"CPU": 1.0, "memory": 1000.0}),
        ({"memory": 0.5}, {"CPU": 1.0}),
        ({"resources": {"a": 1.5}}, {"CPU": 1.0, "a": 1.5}),
        ({"resources": {"a": 1.00001}}, {"CPU": 1.0, "a": 1.0}),
        ({"resources": {"a": 0.12345}}, {"CPU": 1.0, "a": 0.1234}),
        ({"resources": {"a": 0.57}}, {"CPU": 1.0, "a": 0.5699}),
        ({"num_cpus": 0.00015}, {"CPU": 0.0001}),
        ({"num_cpus": True}, {"CPU": 1.0}),
        ({"accelerator_type": "V100"}, {"CPU": 1.0, "accelerator_type:V100": 0.001}),
    ],
)
def test_a_task_asks_for_one_cpu_and_for_what_its_options_name(options, asked):
    """Amounts are floats in steps of 0.0001, truncated as in Ray; a resource with the amount zero is left out."""
    found = requested_resources(options, 1)
    assert found == asked
    assert all(type(amount) is float for amount in found.values())


def test_options_count_a_resource_in_the_steps_of_the_core():
    """The options do not import the core, which is loaded when a session starts, so the number is written twice."""
    assert STEPS_PER_UNIT == UNIT


@pytest.mark.parametrize(
    "options, held",
    [
        ({}, {}),
        ({"num_cpus": None}, {}),
        ({"num_cpus": 0}, {}),
        ({"num_cpus": 0.5}, {"CPU": 0.5}),
        ({"num_gpus": 1}, {"CPU": 1.0, "GPU": 1.0}),
        ({"num_gpus": 0}, {"CPU": 1.0}),
        ({"num_cpus": 0, "num_gpus": 0}, {}),
        ({"memory": 1000}, {"memory": 1000.0}),
        ({"memory": 1000, "num_gpus": 0}, {"CPU": 1.0, "memory": 1000.0}),
        ({"resources": {"a": 1}}, {"CPU": 1.0, "a": 1.0}),
        ({"resources": {"a": 0}}, {"CPU": 1.0}),
        ({"resources": {}}, {}),
    ],
)
def test_an_actor_holds_a_cpu_only_if_it_asks_for_something(options, held):
    """An actor that asks for something, even for none of it, holds one CPU; a default actor holds none."""
    assert actor_resources(options)[0] == held


def test_a_default_actor_is_placed_as_if_it_needed_a_cpu():
    """A default actor needs a CPU to be placed but does not hold it; for an actor with options both are the same."""
    assert actor_resources({"memory": 10}) == ({"memory": 10.0}, {"memory": 10.0, "CPU": 1.0})
    assert actor_resources({"num_cpus": 0}) == ({}, {})
    held, needed = actor_resources({"num_gpus": 0.5})
    assert held == needed == {"CPU": 1.0, "GPU": 0.5}


# (argument, value, what real Ray's init raised).
@pytest.mark.parametrize(
    "name, value, error",
    [
        ("num_cpus", -1, ValueError),
        ("num_cpus", 1.5, ValueError),
        ("num_cpus", "2", AssertionError),
        ("num_cpus", 1e16, ValueError),
        ("num_cpus", float("nan"), ValueError),
        ("num_cpus", [1], AssertionError),
        ("num_gpus", -1, ValueError),
        ("num_gpus", 0.5, ValueError),
        ("num_gpus", "1", TypeError),
        ("resources", {"a": -1}, ValueError),
        ("resources", {"a": 1.5}, ValueError),
        ("resources", {"a": "1"}, AssertionError),
        ("resources", {"a": None}, AssertionError),
        ("resources", {"CPU": 2}, AssertionError),
        ("resources", {"GPU": 1}, AssertionError),
        ("resources", {"memory": 1}, AssertionError),
        ("resources", {"object_store_memory": 1}, AssertionError),
        ("resources", [1], AttributeError),
        ("resources", "a", AttributeError),
        ("resources", {"node:__internal_head__": 1}, ValueError),
        ("labels", "a", AttributeError),
        ("object_store_memory", -1, ValueError),
        ("object_store_memory", "1g", TypeError),
        ("namespace", "", ValueError),
        ("namespace", 7, TypeError),
        ("namespace", b"x", TypeError),
        ("runtime_env", {"env_vars": {"A": 1}}, TypeError),
        ("runtime_env", "x", AttributeError),
        ("_memory", -1, ValueError),
        ("logging_level", "LOUD", ValueError),
        ("logging_format", 3, TypeError),
        ("_system_config", "x", TypeError),
        ("_system_config", [1], TypeError),
        ("_temp_dir", "rel", ValueError),
        ("_temp_dir", 3, TypeError),
        ("flavour", "mint", RuntimeError),
        ("memory", 1, RuntimeError),
        ("storage", None, RuntimeError),
        ("allow_multiple", True, RuntimeError),
        ("redis_password", "x", RuntimeError),
    ],
)
def test_init_refuses_what_ray_refuses(name, value, error):
    """With Ray's class of error; the text names the argument."""
    with pytest.raises(error) as caught:
        check_init({name: value})
    assert type(caught.value) is error
    named = next(iter(value)) if name == "resources" and isinstance(value, dict) else name
    assert str(named) in str(caught.value)


@pytest.mark.parametrize(
    "name, value",
    [
        ("num_cpus", 0),
        ("num_cpus", 2.0),
        ("num_gpus", 1.0),
        ("num_gpus", 101),
        ("resources", {"a": 0}),
        ("resources", {}),
        ("labels", {"a": "b"}),
        ("object_store_memory", 79691776),
        ("object_store_memory", 1.5e8),
        ("namespace", "ok"),
        ("namespace", None),
        ("runtime_env", {"colour": 1}),
        ("runtime_env", []),
        ("_memory", 1.5),
        ("logging_level", 10),
        ("logging_level", "info"),
        ("ignore_reinit_error", "x"),
        ("dashboard_host", 3),
        ("_node_name", 3),
        ("object_spilling_directory", "/spilled"),
        ("_enable_object_reconstruction", True),
    ],
)
def test_init_accepts_what_ray_accepts(name, value):
    """Some of the arguments have no effect in miniray; they are accepted so that programs need not change."""
    given = {name: value}
    check_init(given)
    assert given == {name: value}, "the check changes nothing"


def test_init_accepts_what_only_miniray_has():
    """A small object store (Ray refuses less than 75 MiB), local_mode, several nodes, and on_deadlock."""
    check_init({"object_store_memory": 1000, "on_deadlock": "raise", "local_mode": True, "num_nodes": 3})
    with pytest.raises(ValueError, match="on_deadlock"):
        check_init({"on_deadlock": "explode"})
    with pytest.raises(ValueError, match="num_nodes"):
        check_init({"num_nodes": 0})
