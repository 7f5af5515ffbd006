"""What the raylet starts in place of Python: it asks the nursery for a worker (see ray_workers.py).

It runs for each worker that Ray starts, so it imports little. If the nursery refuses, it becomes the worker itself."""

import array
import json
import os
import socket
import sys


def main() -> None:
    """Send the nursery what a new process has: arguments, environment, folder and open files."""
    answer = b""
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as nursery:
            nursery.connect("\0" + os.environ["DIFFERENTIAL_NURSERY"])
            message = json.dumps([sys.argv[1:], dict(os.environ), os.getcwd()]).encode()
            files = array.array("i", [0, 1, 2])
            nursery.sendmsg([len(message).to_bytes(4, "big")], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])
            nursery.sendall(message)
            answer = nursery.recv(1)
    except OSError:
        answer = b""
    if not answer:
        os.execv(sys.executable, [sys.executable, *sys.argv[1:]])


if __name__ == "__main__":
    main()
