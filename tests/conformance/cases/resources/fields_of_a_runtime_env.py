"""Every field of a runtime environment is checked, and kept in one form, by RuntimeEnv, item by item, and as an option."""
import os
import pathlib
import tempfile


def cases(folder, config):
    requirements, recipe = folder / "req.txt", folder / "env.yaml"
    requirements.write_text("a\n\n# c\nb==1\na\n", encoding="utf-8")
    recipe.write_text("", encoding="utf-8")
    req = str(requirements)
    dicts = [{"packages": ["a"]}, {"packages": []}, {"packages": req}, {"packages": 1}, {}, {"nope": 1}, {"packages": ("a",)},
             {"packages": [1, 1]}]
    lists = [["a", "b", "a"], [], "nofile.txt", req, ["a", 1], ("a",), 1]
    pip = [{"packages": ["a"], **more} for more in (
        {"pip_check": 1}, {"pip_check": True, "pip_version": "==1"}, {"pip_version": 1}, {"pip_install_options": "x"},
        {"pip_install_options": [1]}, {"pip_install_options": ["x"]})]
    uv = [{"packages": ["a"], **more} for more in (
        {"uv_check": 1}, {"uv_check": True, "uv_version": "==1"}, {"uv_version": 1}, {"uv_pip_install_options": "x"},
        {"uv_pip_install_options": [1]}, {"uv_pip_install_options": ["x"]})]
    places = ["/no/such", str(folder), "rel", "http://x/a.zip", "https://x/a.zip?b=c", "https://x/a", "s3://b/a.zip", "s3://b/a",
              "gcs://abc.zip", "gcs://abc", "nope://a.zip", "file:///a.zip", "file:///a", "https://x/a.whl", "https://x/a.tar.gz",
              "https://x/a.jar", "local:///a", "local://a", "S3://b/a.zip"]
    return {
        "pip": [*lists, *dicts, *pip],
        "uv": [*lists, *dicts, *uv],
        "conda": ["name", {"dependencies": ["x"]}, {}, "", 1, [], "none.yaml", "/no/such/dir", str(folder), True],
        "working_dir": ["", *places, 1, ["a"]],
        "py_modules": [[], *([place] for place in places), [1], "x", ("a",), 1],
        "excludes": [[], ["a"], "a", [1], {}, ("a",)],
        "env_vars": [{}, {"A": "b"}, {"A": 1}, {1: "a"}, [], ["a"], "x", ""],
        "container": [{}, {"image": "x"}, "x"],
        "image_uri": ["x", ""],
        "py_executable": ["python"],
        "nsight": ["default", {"t": "cuda"}],
        "rocprof_sys": ["default", {"args": {}}],
        "worker_process_setup_hook": ["a.b", len],
        "config": [{}, {"setup_timeout_seconds": 3}, {"setup_timeout_seconds": 0}, {"setup_timeout_seconds": -1},
                   {"setup_timeout_seconds": -2}, {"setup_timeout_seconds": 1.5}, {"eager_install": 1}, {"eager_install": False},
                   {"log_files": ["a"]}, {"log_files": "a"}, {"log_files": [1]}, {"nope": 1}, 1, "x", [], config],
        "java_jars": [["a"]],
        "nope": [1, None, {"a": [1]}, {1, 2}],
    }


TOGETHER = [
    {"pip": ["a"], "conda": "b"}, {"pip": ["a"], "uv": ["b"]}, {"uv": ["a"], "conda": "x"}, {"pip": [], "conda": "x"},
    {"pip": None, "conda": "x"}, {"container": {"image": "x"}, "pip": ["a"]},
    {"container": {"image": "x"}, "env_vars": {"A": "b"}, "config": {}}, {"image_uri": "x", "working_dir": "https://x/a.zip"},
    {"image_uri": "x", "env_vars": {"A": "b"}}, {"container": {"image": "x"}, "image_uri": "y"}, {"env_vars": None}, {"nope": None},
    {"a b": 1}, {1: 2}, {"pip": 1, "_validate": False}, {},
]


def run(ctx):
    ray, env = ctx.ray, ctx.sub("runtime_env")
    folder = pathlib.Path(tempfile.mkdtemp())

    def text(value):
        return str(value).replace(ray.__commit__, "COMMIT").replace(str(folder), "FOLDER").replace("miniray", "ray")

    def tried(call):
        try:
            return text(call())
        except Exception as error:
            return type(error).__name__

    def item(name, value):
        made = env.RuntimeEnv()
        made[name] = value
        return dict(made)

    def task():
        pass

    class Actor:
        pass

    def option(runtime_env, what):
        ray.remote(what).options(runtime_env=runtime_env)
        return "taken"

    for name, values in cases(folder, env.RuntimeEnvConfig(5)).items():
        for value in values:
            ctx.show(name, text(repr(value)))
            ctx.show("  as keyword:", tried(lambda: dict(env.RuntimeEnv(**{name: value}))))
            ctx.show("  as item:", tried(lambda: item(name, value)))
            ctx.show("  as option:", tried(lambda: option({name: value}, task)), tried(lambda: option({name: value}, Actor)))
    for given in TOGETHER:
        ctx.show(given)
        ctx.show("  as keywords:", tried(lambda: dict(env.RuntimeEnv(**given))))
        ctx.show("  as option:", tried(lambda: option(given, task)))
    ctx.raises(lambda: ray.remote(Actor).options(runtime_env={"nope": {1, 2}}).remote())
    for given in ({}, {"setup_timeout_seconds": None}, {"eager_install": None}, {"log_files": ()}, {"log_files": ["a"]}):
        ctx.show(given, tried(lambda: env.RuntimeEnvConfig(**given).to_dict()))
    for given in ({}, {"a": 1}, env.RuntimeEnvConfig(), 3):
        ctx.show(tried(lambda: type(env.RuntimeEnvConfig.parse_and_validate_runtime_env_config(given)).__name__))
    os.remove(folder / "req.txt"), os.remove(folder / "env.yaml"), folder.rmdir()
