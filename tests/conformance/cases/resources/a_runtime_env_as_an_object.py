"""The methods of RuntimeEnv, and which environment a task or an actor gets from its decorator and its options."""
import copy
import os
import pickle


def run(ctx):
    ray, env = ctx.ray, ctx.sub("runtime_env")

    def text(value):
        return str(value).replace(ray.__commit__, "COMMIT").replace("miniray", "ray")

    def tried(call):
        try:
            return text(call())
        except Exception as error:
            return type(error).__name__

    full = env.RuntimeEnv(pip=["a"], env_vars={"A": "b"}, working_dir="https://x/a.zip", py_modules=["https://x/b.zip"],
                          config={"setup_timeout_seconds": 4}, nope=3)
    some = [full, env.RuntimeEnv(), env.RuntimeEnv(conda="x"), env.RuntimeEnv(conda={"dependencies": ["a"]}), env.RuntimeEnv(uv=["a"]),
            env.RuntimeEnv(container={"image": "x"}), env.RuntimeEnv(image_uri="y"), env.RuntimeEnv(nsight="default")]
    for name in ("env_vars", "working_dir", "has_working_dir", "working_dir_uri", "py_modules", "py_modules_uris", "py_executable",
                 "java_jars", "image_uri", "nsight", "rocprof_sys", "has_conda", "conda_env_name", "conda_config", "has_pip", "pip_config",
                 "virtualenv_name", "has_uv", "uv_config", "has_py_container", "py_container_image", "py_container_worker_path",
                 "py_container_run_options", "plugins", "plugin_uris", "to_dict", "serialize"):
        ctx.show(name, *[tried(getattr(one, name)) for one in some])
    ctx.show(sorted(env.RuntimeEnv.known_fields), sorted(env.RuntimeEnv.extensions_fields), sorted(env.RuntimeEnvConfig.known_fields))
    ctx.show(text(full.get("pip")), full.get("zip"), full.get("zip", 3), type(full["config"]).__name__, type(full.to_dict()["config"]).__name__)
    ctx.show(pickle.loads(pickle.dumps(full)) == full, type(copy.deepcopy(full)).__name__, env.RuntimeEnv.deserialize(full.serialize()) == full)
    full.set("env_vars", {"C": "d"})
    ctx.show(full.env_vars(), tried(lambda: full.set("pip", 3)), tried(lambda: full.__setitem__("env_vars", {"A": 1})))
    ctx.show(*[tried(lambda: full.get_extension(name)) for name in ("_ray_commit", "_ray_release", "pip", "nope")])

    @ray.remote(runtime_env={"env_vars": {"A": "1", "B": "2"}})
    def task():
        return os.environ.get("A"), os.environ.get("B"), sorted(ray.get_runtime_context().runtime_env.items())

    @ray.remote(runtime_env={"env_vars": {"A": "1", "B": "2"}})
    class Actor:
        def see(self):
            return os.environ.get("A"), os.environ.get("B"), sorted(ray.get_runtime_context().runtime_env.items())

    for given in ({}, None, {"env_vars": {}}, {"env_vars": {"A": "3"}}, {"pip": []}):
        ctx.show(given, "task", ray.get(task.options(runtime_env=given).remote()))
        ctx.show(given, "actor", ray.get(Actor.options(runtime_env=given).remote().see.remote()))
