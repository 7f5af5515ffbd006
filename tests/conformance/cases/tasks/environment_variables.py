"""A task sees the variables of its runtime environment, on top of its caller's; nobody else does."""
import os
import subprocess
import threading

INIT = dict(num_cpus=4, runtime_env={"env_vars": {"MR_A": "job", "MR_B": "job"}})
NAMES = ("MR_A", "MR_B", "MR_C")


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def see():
        return [os.environ.get(name) for name in NAMES]

    @ray.remote
    def family(**options):
        return see_of(ray.get(see.options(**options).remote())), ray.get_runtime_context().runtime_env["env_vars"]

    def see_of(found):
        return " ".join(map(str, found))

    ctx.show("driver", *[os.environ.get(name) for name in NAMES])
    ctx.show("job", *ray.get(see.remote()))
    for given in {"MR_C": "task"}, {"MR_B": "task"}, {}, None, {"MR_B": ""}:
        ctx.show(given, *map(repr, ray.get(see.options(runtime_env={"env_vars": given}).remote())))
    ctx.show("no environment", *ray.get(see.options(runtime_env={}).remote()))

    parent = family.options(runtime_env={"env_vars": {"MR_A": "parent"}})
    for options in {}, {"runtime_env": {"env_vars": {"MR_C": "child"}}}:
        found, own = ray.get(parent.remote(**options))
        ctx.show("child of", sorted(own.items()), "sees", found)

    @ray.remote(runtime_env={"env_vars": {"MR_C": "decorator"}})
    def decorated():
        return [os.environ.get(name) for name in NAMES]

    ctx.show("decorator", *ray.get(decorated.remote()))
    ctx.show("options in its place", *ray.get(decorated.options(runtime_env={"env_vars": {"MR_B": "options"}}).remote()))

    values = {"MR_1": "${MR_A}/${MR_B}", "MR_2": "$MR_1:$NO_SUCH", "MR_3": "[${NO_SUCH}]", "MR_4": "${no_such}", "MR_B": "${MR_B}+",
              "MR_5": "${MR_6}", "MR_6": "six"}

    @ray.remote(runtime_env={"env_vars": values})
    def referring():
        return [os.environ.get(name) for name in values]

    for name, value in zip(values, ray.get(referring.remote())):
        ctx.show(name, values[name], "->", repr(value))

    @ray.remote(runtime_env={"env_vars": {"MR_C": "c"}})
    def every_way():
        found = [os.environ["MR_C"], os.getenv("MR_C"), os.environb[b"MR_C"], "MR_C" in os.environ, dict(os.environ)["MR_C"]]
        thread = threading.Thread(target=lambda: found.append(os.environ.get("MR_C")))
        thread.start()
        thread.join()
        found += [subprocess.check_output(["sh", "-c", "echo $MR_C"], text=True).strip(), os.popen("echo $MR_C").read().strip(),
                  os.system('test "$MR_C" = c'), os.system("exit 3"), os.spawnlp(os.P_WAIT, "sh", "sh", "-c", 'test "$MR_C" = c')]
        os.environ["MR_D"] = "d"
        found += [os.environ["MR_D"], os.system('test "$MR_D" = d')]
        del os.environ["MR_C"]
        return found + [os.environ.get("MR_C"), "MR_C" in os.environ, os.system('test -z "$MR_C"')]

    ctx.show(*ray.get(every_way.remote()))
    ctx.show("driver", *[os.environ.get(name) for name in (*NAMES, "MR_D")])
    for bad in {"A": 1}, {1: "a"}, {"A": None}, {"A": b"a"}, ["a"], "A=1", 0, False:
        ctx.raises(lambda bad=bad: see.options(runtime_env={"env_vars": bad}))
    for empty in [], "", ():
        ctx.show(repr(empty), *ray.get(see.options(runtime_env={"env_vars": empty}).remote()))
