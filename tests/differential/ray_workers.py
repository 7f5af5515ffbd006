"""Ray's worker processes, forked from a process that has imported Ray already.

A worker that starts the usual way imports Ray twice, which takes most of a second of computing time. Here a nursery
process imports Ray once. The raylet starts a small client (worker_client.py) in place of Python. The client sends its
arguments, its environment and its files to the nursery, which forks a worker. A worker whose runtime environment is more
than variables starts the usual way. The interpreter's zoo always runs with the usual workers: it asks what a process has.
"""

from __future__ import annotations

import array
import importlib
import json
import os
import pathlib
import runpy
import signal
import socket
import sys
from typing import Any

CLIENT = pathlib.Path(__file__).with_name("worker_client.py")


def install() -> None:
    """Have the raylets that this process starts use a nursery. Call it before Ray is imported."""
    assert "ray" not in sys.modules
    os.environ["DIFFERENTIAL_NURSERY"] = name = f"miniray-nursery-{os.getpid()}"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind("\0" + name)  # a name without a file: Linux only, as these workers are
    listener.listen(64)
    if not os.fork():
        try:
            serve(listener)
        finally:
            os._exit(0)
    listener.close()
    from ray._private import services

    start = services.start_ray_process

    def start_with_client(command: list[str], *more: Any, **named: Any) -> Any:
        mark = "--python_worker_command="
        client = f"{sys.executable} -SE {CLIENT}"
        command = [part.replace(sys.executable, client, 1) if part.startswith(mark) else part for part in command]
        return start(command, *more, **named)

    services.start_ray_process = start_with_client


def serve(listener: socket.socket) -> None:
    """The nursery: a worker for each client that connects, until the session's process has ended.

    Ray reads the job's and the raylet's variables when it is imported: that waits for the first client, which has them."""
    parent = os.getppid()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    listener.settimeout(1.0)
    while os.getppid() == parent:
        try:
            client, _ = listener.accept()
        except TimeoutError:
            continue
        with client:
            client.settimeout(5.0)
            head, sent, _, _ = client.recvmsg(4, socket.CMSG_SPACE(3 * 4))
            message = b""
            while len(message) < int.from_bytes(head, "big"):
                message += client.recv(1 << 16)
            arguments, environment, cwd = json.loads(message)
            files = array.array("i", sent[0][2])
            if "ray" not in sys.modules:
                os.environ.update(environment)
                importlib.import_module("ray._private.workers.default_worker")
            if (more := variables(arguments)) is not None:
                if not os.fork():
                    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                    client.close()
                    listener.close()
                    become(arguments, {**environment, **more}, cwd, files)
                client.send(b"1")
        for number in files:
            os.close(number)


def variables(arguments: list[str]) -> dict[str, str] | None:
    """The variables of a worker's runtime environment; None if the environment is more than variables."""
    text = next((a.partition("=")[2] for a in arguments if a.startswith("--serialized-runtime-env-context=")), "{}")
    context = json.loads(text)
    own = {"command_prefix": [], "py_executable": sys.executable, "override_worker_entrypoint": None, "java_jars": []}
    if any(value and value != own.get(name) for name, value in context.items() if name != "env_vars"):
        return None
    return dict(context.get("env_vars") or {})


def become(arguments: list[str], environment: dict[str, str], cwd: str, files: array.array[int]) -> None:
    """Be the worker that was asked for, in this new process."""
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(cwd)
    start = next(i for i, a in enumerate(arguments) if a.endswith("default_worker.py"))
    skipped = ("--serialized-runtime-env-context=", "--language=")
    program = arguments[start]
    sys.argv = [program, *(a for a in arguments[start + 1 :] if not a.startswith(skipped))]
    for name in [n for n in sys.modules if n.startswith("tests.differential")]:
        del sys.modules[name]
    sys.path[0] = os.path.dirname(program)
    runpy.run_path(program, run_name="__main__")
    os._exit(0)
