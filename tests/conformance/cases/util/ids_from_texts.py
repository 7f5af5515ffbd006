"""Ids made from texts and bytes, good and bad; random ids; the ids inside an id."""


def run(ctx):
    ray = ctx.ray
    names = [
        "ActorID",
        "JobID",
        "NodeID",
        "TaskID",
        "UniqueID",
        "WorkerID",
        "PlacementGroupID",
        "ActorClassID",
        "FunctionID",
        "ClusterID",
    ]
    for name in names:
        cls = getattr(ray, name)
        size = cls.size()
        for text in (
            "",
            b"",
            "zz",
            None,
            3,
            [],
            "ff",
            "01" * size,
            b"01" * size,
            "AB" * size,
            "01" * (size + 1),
            "zz" * size,
            " " * size * 2,
        ):
            ctx.show(name, text if text is None or len(str(text)) < 9 else (type(text).__name__, len(text), text[:2]))
            ctx.raises(lambda: cls.from_hex(text))
        for data in ("", b"", None, 3, b"f", b"\1" * size, b"\1" * (size + 1), "x" * size, bytearray(size)):
            ctx.raises(lambda: cls(data))
        if hasattr(cls, "from_random"):
            ctx.show(name, "random", len(cls.from_random().binary()), cls.from_random() != cls.from_random())
        ctx.show(name, cls.nil(), cls.nil().is_nil(), cls.nil() == cls.nil(), len(cls.nil().hex()), cls.nil().size())
    ctx.raises(lambda: ray.ObjectRef.size())
    actor = ray.ActorID(bytes(range(16)))
    task = ray.TaskID(bytes(range(24)))
    ctx.show(actor.job_id, task.actor_id(), task.job_id())
