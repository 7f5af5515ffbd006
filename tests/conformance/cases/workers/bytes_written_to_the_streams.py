"""`sys.stdout.buffer` of a worker is a BufferedWriter with all its methods, which a TextIOWrapper can use."""

import io
import sys


def run(ctx):
    ray = ctx.ray

    def look(name):
        stream = getattr(sys, name)
        buffer = stream.buffer
        found = [stream.errors in ("strict", "replace"), stream.mode, stream.line_buffering, stream.closed]
        found += [isinstance(buffer, io.BufferedWriter), buffer.writable(), buffer.readable(), buffer.closed]
        found += [buffer.mode, buffer.isatty(), buffer.fileno() > 0, buffer.raw.fileno() == stream.fileno()]
        found += [buffer.write(b"a\n"), buffer.write(bytearray(b"b\n")), buffer.write(memoryview(b"c\n"))]
        found += [buffer.writelines([b"d\n", b"e\n"]), buffer.flush(), buffer.raw.write(b"f\n")]
        for call in (
            lambda: buffer.write("x"),
            lambda: buffer.write(5),
            lambda: buffer.read(),
            lambda: buffer.peek,
            lambda: stream.read(),
            lambda: stream.readline(),
            lambda: stream.write(5),
        ):
            try:
                found.append(call())
            except Exception as error:
                found.append(type(error).__name__)
        wrapper = io.TextIOWrapper(buffer, encoding="latin-1", write_through=True)
        wrapper.write("g\n")
        wrapper.detach()
        return found

    @ray.remote
    def in_task(name):
        return look(name)

    @ray.remote
    class Actor:
        def plain(self, name):
            return look(name)

    @ray.remote
    class Async:
        async def plain(self, name):
            return look(name)

    for name in "stdout", "stderr":
        ctx.show("task", *ray.get(in_task.remote(name)))
        ctx.show("actor", *ray.get(Actor.remote().plain.remote(name)))
        ctx.show("async", *ray.get(Async.remote().plain.remote(name)))
