"""The log of events: what has no record of its own, or happens to a record several times, has a line in it."""

from __future__ import annotations

import pytest

from tests.core.builders import (
    LARGE,
    NOW,
    a_call,
    a_group,
    a_value,
    add_node,
    crash,
    drop,
    finish,
    living_actor,
    one_node,
    put,
    running_task,
    started,
    submitted,
)


def spilled(c):
    """A value whose file was written."""
    obj = put(c, LARGE)
    put(c, LARGE)
    obj.value = "file"
    c.object_spilled(NOW, obj)
    return obj


def node_joined(c):
    return c.nodes[1]


def node_died(c):
    second = add_node(c)
    c.remove_node(NOW, second)
    return second


def worker_died(c):
    worker = running_task(c)[1]
    crash(c, worker)
    return worker


def actor_restarting(c):
    actor = living_actor(c, max_restarts=1)
    crash(c, actor.worker)
    return actor


def actor_died(c):
    actor = living_actor(c)
    c.kill_actor(NOW, actor)
    return actor


def object_lost(c):
    obj = a_value(c, LARGE)
    c.lose_object(NOW, obj)
    return obj


def reconstruction(c):
    obj = a_value(c, LARGE, retries=1)
    c.lose_object(NOW, obj)
    submitted(c, deps=(obj,))
    return obj.task


def spill_failed(c):
    obj = put(c, LARGE)
    put(c, LARGE)
    c.spill_failed(NOW, obj, "the disk is full")
    return obj


def restored(c):
    obj = spilled(c)
    obj.value = "the value again"
    c.object_restored(NOW, obj)
    return obj


def restore_failed(c):
    obj = spilled(c)
    c.restore_failed(NOW, obj, "the file is gone")
    return obj


def placement_group_removed(c):
    group = a_group(c, {"CPU": 1})
    c.remove_placement_group(NOW, group)
    return group


KINDS = [
    node_joined,
    node_died,
    worker_died,
    actor_restarting,
    actor_died,
    object_lost,
    reconstruction,
    spilled,
    spill_failed,
    restored,
    restore_failed,
    placement_group_removed,
]


@pytest.mark.parametrize("happens", KINDS, ids=lambda happens: happens.__name__)
def test_what_happens_is_in_the_log_once(happens):
    """Under its word, at its time, with a sentence and the record that it is about."""
    c = one_node(store_bytes=LARGE)
    about = happens(c)
    lines = [event for event in c.events if event.kind == happens.__name__]
    assert [(event.at, event.about) for event in lines] == [(NOW, about)]
    assert len(lines[0].text.split()) > 1


def test_an_actor_that_is_revived_for_a_result_is_in_the_log_as_restarting():
    """It had died because nobody held it, and says so before."""
    c = one_node()
    actor = living_actor(c, max_restarts=1, max_task_retries=1)
    call = a_call(c, actor)
    started(c, call)
    finish(c, call, LARGE)
    drop(c, actor.handle)
    c.lose_object(NOW, call.returns[0])
    submitted(c, deps=call.returns)
    assert [event.kind for event in c.events if event.about is actor] == ["actor_died", "actor_restarting"]
    assert actor.restarts == 1
