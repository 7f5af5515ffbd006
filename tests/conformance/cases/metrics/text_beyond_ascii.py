"""Where a metric refuses text that is not ASCII: in a tag's value when it records, in keys and descriptions at once."""

import pickle
import warnings


class Text(str):
    def encode(self, *args):
        return b"own"


def run(ctx):
    metrics = ctx.sub("util.metrics")
    count = iter(range(10**6))

    def name():
        return f"beyond_ascii_{next(count)}"

    def outcome(call):
        try:
            found = call()
        except Exception as error:
            return type(error).__name__
        return type(found).__name__

    def make(kind, own_name=None, **kwargs):
        if kind == "Histogram":
            kwargs["boundaries"] = [1]
        return getattr(metrics, kind)(own_name or name(), **kwargs)

    record = {"Counter": "inc", "Gauge": "set", "Histogram": "observe"}
    for kind, verb in record.items():
        ctx.show(kind)
        for options in (
            {"tag_keys": ("é",)},
            {"tag_keys": ("ok", "日本")},
            {"description": "é"},
            {"description": "ok", "tag_keys": ("\ud800",)},
            {"description": "\ud800"},
            {"description": Text("é")},
            {"tag_keys": (Text("é"),)},
            {"description": "é", "tag_keys": ["é"]},
            {"description": "é", "tag_keys": ("é", 5)},
        ):
            ctx.show(ascii(options), outcome(lambda: make(kind, **options)))
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            unusable = make(kind, "größe", description="é", tag_keys=("é",))
        ctx.show([w.category.__name__ for w in seen], outcome(lambda: getattr(unusable, verb)(1, tags={"é": "é"})))
        metric = make(kind, tag_keys=("k", "other"))
        write = getattr(metric, verb)
        for value, tags in (
            (1, {"k": "é", "other": "x"}),
            (1, {"k": "é"}),
            (1, {"k": "é", "other": 5}),
            (-1, {"k": "é", "other": "x"}),
            (float("nan"), {"k": "é", "other": "x"}),
            (float("inf"), {"k": "é", "other": "x"}),
            (None, {"k": "é", "other": "x"}),
            ("1", {"k": "é", "other": "x"}),
            (1, {"k": "x", "other": "x", "unknown": "é"}),
            (1, {"k": "x", "other": "x", "é": "x"}),
            (1, {"k": "x", "other": "x", 1: "x"}),
            (1, {"k": "x", "other": "x", b"y": "x"}),
            (1, {"k": Text("é"), "other": "x"}),
            (1, {"k": Text("x"), "other": "x"}),
            (1, {"k": "x", "other": "\x80"}),
            (1, {"k": "x", "other": "\x7f"}),
        ):
            ctx.show(value, ascii(tags), outcome(lambda: write(value, tags=tags)))
        ctx.show(outcome(lambda: metric.set_default_tags({"k": "é", "other": "x"})), metric.info["default_tags"])
        ctx.show(outcome(lambda: write(1)), outcome(lambda: write(1, tags={"other": "y"})))
        ctx.show(outcome(lambda: write(1, tags={"k": "x"})), outcome(lambda: write(1, tags={})))
        ctx.show(outcome(lambda: write(1, tags={"k": "x"})), outcome(lambda: write(1)))
        copy = pickle.loads(pickle.dumps(metric))
        ctx.show(outcome(lambda: getattr(copy, verb)(1, tags={"k": "é", "other": "x"})))
    ctx.show(outcome(lambda: metrics.Metric(name(), "é", ("é",))))
    ctx.show(outcome(lambda: metrics.Metric(name(), "", ("é",)).set_default_tags({"é": "é"})))

    @ctx.ray.remote
    def inside():
        counter = make("Counter", tag_keys=("k",))
        return outcome(lambda: counter.inc(tags={"k": "é"})), outcome(lambda: make("Gauge", description="é"))

    ctx.show(ctx.ray.get(inside.remote()))
    error = ctx.raises(lambda: make("Counter", tag_keys=("k",)).inc(tags={"k": "aé"}), "UnicodeEncodeError")
    ctx.show(error.encoding, error.object, error.start, error.end, error.reason)
