"""The timeline: what ran when and where, as a page for the browser and as a trace for Perfetto.

`timeline(html=...)` writes one page that needs only a browser. `timeline(filename)` writes Chrome trace events, like
Ray's, for Perfetto, chrome://tracing or speedscope. Inside a task, `profile` marks a part of it.

Only on miniray: the page. Ray's `ray.timeline` writes the same trace events and has no `html`.

Prints:

    the page is a single HTML file: True
    tasks in the trace: 3 of resize, 1 of upload
    marked inside upload: compress, send
"""

import json
import os
import tempfile

import miniray as ray


@ray.remote
def resize(n):
    return n * n


@ray.remote
def upload(images):
    with ray.profile("compress"):
        packed = str(images)
    with ray.profile("send"):
        return len(packed)


ray.init(num_cpus=2)
ray.get(upload.remote(ray.get([resize.remote(n) for n in range(3)])))

with tempfile.TemporaryDirectory() as folder:
    page, trace = os.path.join(folder, "run.html"), os.path.join(folder, "run.json")
    ray.timeline(html=page)
    ray.timeline(trace)
    with open(page, encoding="utf-8") as file:
        print("the page is a single HTML file:", file.read().lstrip().lower().startswith("<!doctype html"))
    with open(trace, encoding="utf-8") as file:
        events = json.load(file)

kinds = [event["cat"] for event in events]
print(f"tasks in the trace: {kinds.count('task::resize')} of resize, {kinds.count('task::upload')} of upload")
marked = sorted((event["ts"], event["cat"]) for event in events if event["cat"] in ("compress", "send"))
print("marked inside upload:", ", ".join(name for _, name in marked))

ray.shutdown()
