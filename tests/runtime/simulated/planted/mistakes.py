"""Mistakes, each of which may be planted in the core: an easy one to make, and a hard one to see in a test of threads."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Mistake:
    """What is wrong, the file in `core/`, the text that is right (it occurs once), and the text that is wrong."""

    what: str
    file: str
    right: str
    wrong: str


MISTAKES = (
    Mistake(
        "a lost wake-up: a waiter that has one object left is forgotten",
        "wakeups.py",
        ("                        waiter.need -= 1\n                        if waiter.need <= 0 or failed"),
        ("                        waiter.need -= 1\n                        if waiter.need < 0 or failed"),
    ),
    Mistake(
        "a task with two arguments is not told that they are ready",
        "wakeups.py",
        ("                    task.pending -= 1\n                    if not task.pending:"),
        ("                    task.pending -= 1\n                    if not task.pending and len(task.deps) < 2:"),
    ),
    Mistake(
        "a worker that has not got its CPU back lends it again",
        "scheduler.py",
        'more = worker.lease.hold.get("CPU", 0) - worker.lent if',
        'more = worker.lease.hold.get("CPU", 0) if',
    ),
    Mistake(
        "a waiter that gave up stays attached to its objects",
        "wakeups.py",
        ("                obj.waiters.remove(waiter)\n                if not obj.waiters:"),
        "                if not obj.waiters:",
    ),
    Mistake(
        "a lost object that is waited for is not rebuilt",
        "wakeups.py",
        ("            if status is LOST:\n                self.cluster.task_manager.rebuild(now, obj)"),
        "            pass",
    ),
    Mistake(
        "an argument is counted twice",
        "task_manager.py",
        ("            for dep in deps:\n                dep.uses += 1\n            if len(deps) > 1:"),
        (
            "            for dep in deps:\n"
            "                dep.uses += 1 + (len(deps) > 1)\n"
            "            if len(deps) > 1:"
        ),
    ),
    Mistake(
        "the first reference inside a value is not counted",
        "task_manager.py",
        ("        for inner in task.contained:\n            inner.held += 1"),
        ("        for inner in task.contained[1:]:\n            inner.held += 1"),
    ),
    Mistake(
        "an argument that has failed is ignored when the task is submitted",
        "task_manager.py",
        (
            "            if failed is not None:\n"
            "                self.fail_for_argument(now, task, failed)\n"
            "                return"
        ),
        (
            "            if failed is not None and task.actor is not None:\n"
            "                self.fail_for_argument(now, task, failed)\n"
            "                return"
        ),
    ),
    Mistake(
        "a lost argument is not rebuilt",
        "task_manager.py",
        ("            if status is LOST:\n                self.rebuild(now, dep)"),
        ("            if status is LOST and task.actor is not None:\n                self.rebuild(now, dep)"),
    ),
    Mistake(
        "unfinished tasks of an owner are not counted down",
        "task_manager.py",
        (
            "        if owner is not None:\n"
            "            owner.unfinished -= 1\n"
            "            if owner.drain is not None:\n"
            "                cluster.drained.append(owner.drain)\n"
            "        if ("
        ),
        (
            "        if owner is not None:\n"
            "            if owner.drain is not None:\n"
            "                cluster.drained.append(owner.drain)\n"
            "        if ("
        ),
    ),
    Mistake(
        "references inside a freed value are not released",
        "reference_counter.py",
        (
            "        for inner in obj.contained:\n"
            "            inner.held -= 1\n"
            "            self.check(now, inner)\n"
            "        obj.contained = ()"
        ),
        "        obj.contained = ()",
    ),
    Mistake(
        "an argument is released twice",
        "reference_counter.py",
        (
            "        for dep in task.deps:\n"
            "            dep.lineage += 1\n"
            "            dep.uses -= 1\n"
            "            self.check(now, dep)"
        ),
        (
            "        for dep in task.deps:\n"
            "            dep.lineage += 1\n"
            "            dep.uses -= 2 if len(task.deps) > 1 else 1\n"
            "            self.check(now, dep)"
        ),
    ),
    Mistake(
        "lineage that is used again is still counted as lineage",
        "reference_counter.py",
        ("            dep.lineage -= 1\n            dep.uses += 1\n            if dep.number not in"),
        ("            dep.uses += 1\n            if dep.number not in"),
    ),
    Mistake(
        "a lease that has lent its CPU is not returned",
        "scheduler.py",
        (
            "        for name, amount in wanted.hold.items():\n"
            "            available[name] += amount\n"
            "        if worker.lent:\n"
            '            available["CPU"] -= worker.lent'
        ),
        (
            "        for name, amount in wanted.hold.items():\n"
            "            available[name] += amount if not worker.lent else 0\n"
            "        if worker.lent:\n"
            '            available["CPU"] -= worker.lent'
        ),
    ),
    Mistake(
        "a lease is returned, and what it lent as well",
        "scheduler.py",
        ('        if worker.lent:\n            available["CPU"] -= worker.lent\n            worker.lent = 0'),
        ("        if worker.lent:\n            worker.lent = 0"),
    ),
    Mistake(
        "a woken worker takes back a CPU that is not free",
        "scheduler.py",
        '        back = min(worker.lent, available.get("CPU", 0))',
        "        back = worker.lent",
    ),
    Mistake(
        "an idle actor is not told to run a call with arguments",
        "actor_manager.py",
        (
            "            if worker is not self.cluster.scheduler.reporting and "
            "worker.status is not WorkerStatus.STARTING:\n"
            "                self.cluster.actions.append(RunTask(worker, task))\n\n    @static"
        ),
        (
            "            if worker is not self.cluster.scheduler.reporting and "
            "worker.status is not WorkerStatus.STARTING and not task.deps:\n"
            "                self.cluster.actions.append(RunTask(worker, task))\n\n    @static"
        ),
    ),
    Mistake(
        "a call has ended, and the next one is not started",
        "actor_manager.py",
        ("        queue = group.queue\n        if ("),
        ("        queue = group.queue if len(group.queue) > 1 else ()\n        if ("),
    ),
    Mistake(
        "a call overtakes an earlier call of the same caller",
        "actor_manager.py",
        "            elif task.status is SUBMITTED and task.owner not in waiting:",
        "            elif task.status is SUBMITTED:",
    ),
    Mistake(
        "an actor without handles ends although a call is unfinished",
        "actor_manager.py",
        "or handle.held or actor.detached or actor.calls)",
        "or handle.held or actor.detached)",
    ),
    Mistake(
        "a retry is not counted",
        "task_manager.py",
        "task.retries_left -= 1",
        "pass",
    ),
)
