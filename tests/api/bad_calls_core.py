"""Bad calls of the core API: the error that real Ray 2.60 raises for each, and a word that names the argument.

A line is `call | error | word`. The part of a call before its last `;` must not raise, since the moment of the error
counts, too. `bad_arguments.names` defines the names. The errors were recorded by running the same lines on real Ray:

    python -m tests.api.bad_arguments ray          prints the lines for which real Ray raises another error
"""

CALLS = r"""
# get
ray.get(None) | ValueError | object_refs
ray.get(5) | ValueError | object_refs
ray.get("x") | ValueError | object_refs
ray.get((ref,)) | ValueError | object_refs
ray.get({ref}) | ValueError | object_refs
ray.get({"k": ref}) | ValueError | object_refs
ray.get(iter([ref])) | ValueError | object_refs
ray.get([ref, 2]) | TypeError | `get`
ray.get([ref, None]) | TypeError | `get`
ray.get([[ref]]) | TypeError | `get`
ray.get(f) | ValueError | object_refs
ray.get(f.remote) | ValueError | object_refs
ray.get(a) | ValueError | object_refs
ray.get([a]) | TypeError | `get`
ray.get(A) | ValueError | object_refs
ray.get() | TypeError | object_refs
ray.get(ref, 1) | TypeError | get()
ray.get(ref, ref) | TypeError | get()
ray.get(ref, nonsense=1) | TypeError | nonsense
ray.get(ref, timeout="soon") | ValueError | timeout
ray.get(ref, timeout=[1]) | TypeError | timeout
ray.get([ref], timeout="soon") | ValueError | timeout
ray.get(never, timeout=0) | GetTimeoutError | timed out
ray.get(never, timeout=0.01) | GetTimeoutError | timed out
# put
ray.put(ref) | TypeError | put
ray.put() | TypeError | value
ray.put(1, 2) | TypeError | put()
ray.put(1, nonsense=2) | TypeError | nonsense
ray.put(lock) | TypeError | the put value
ray.put([1, {"deep": lock}]) | TypeError | the put value
ray.put(i for i in "ab") | TypeError | the put value
ray.put(socket) | TypeError | the put value
ray.put(1, _owner="me") | ValueError | _owner
# wait
ray.wait(ref) | TypeError | wait()
ray.wait(None) | TypeError | wait()
ray.wait("ab") | TypeError | wait()
ray.wait(5) | TypeError | wait()
ray.wait((ref,)) | TypeError | wait()
ray.wait({ref}) | TypeError | wait()
ray.wait({"k": ref}) | TypeError | wait()
ray.wait([ref, 5]) | TypeError | wait()
ray.wait([[ref]]) | TypeError | wait()
ray.wait([None]) | TypeError | wait()
ray.wait([a]) | TypeError | wait()
ray.wait([ref, ref]) | ValueError | ray_waitables
ray.wait([ref, other, ref]) | ValueError | ray_waitables
ray.wait([ref], num_returns=0) | ValueError | number of objects to return
ray.wait([ref], num_returns=-1) | ValueError | number of objects to return
ray.wait([ref], num_returns=2) | ValueError | num_returns
ray.wait([ref, other], num_returns=3) | ValueError | num_returns
ray.wait([ref], num_returns="1") | TypeError | num_returns
ray.wait([ref], num_returns=None) | TypeError | num_returns
ray.wait([ref], num_returns=[1]) | TypeError | num_returns
ray.wait([ref], timeout=-1) | ValueError | timeout
ray.wait([ref], timeout="soon") | TypeError | timeout
ray.wait([ref], timeout=[0]) | TypeError | timeout
ray.wait([], timeout=-1) | ValueError | timeout
ray.wait([never], timeout="soon") | TypeError | timeout
ray.wait() | TypeError | ray_waitables
ray.wait([ref], 1) | TypeError | wait()
ray.wait([ref], nonsense=1) | TypeError | nonsense
# kill
ray.kill(None) | ValueError | ray.kill()
ray.kill("a") | ValueError | ray.kill()
ray.kill(ref) | ValueError | ray.kill()
ray.kill(A) | ValueError | ray.kill()
ray.kill(a.m) | ValueError | ray.kill()
ray.kill([a]) | ValueError | ray.kill()
ray.kill() | TypeError | actor
ray.kill(a, True) | TypeError | kill()
ray.kill(a, nonsense=1) | TypeError | nonsense
# cancel
ray.cancel(None) | TypeError | ray.cancel()
ray.cancel("x") | TypeError | ray.cancel()
ray.cancel(5) | TypeError | ray.cancel()
ray.cancel([ref]) | TypeError | ray.cancel()
ray.cancel(a) | TypeError | ray.cancel()
ray.cancel(f) | TypeError | ray.cancel()
ray.cancel() | TypeError | ray_waitable
ray.cancel(never, True) | TypeError | cancel()
ray.cancel(never, nonsense=1) | TypeError | nonsense
# get_actor
ray.get_actor("") | ValueError | non-empty
ray.get_actor(None) | ValueError | non-empty
ray.get_actor(5) | TypeError | name of an actor
ray.get_actor(b"x") | ValueError | name
ray.get_actor("nobody") | ValueError | actor with name 'nobody'
ray.get_actor("nobody", namespace="elsewhere") | ValueError | namespace
ray.get_actor("nobody", namespace="") | ValueError | namespace
ray.get_actor("nobody", namespace=5) | TypeError | namespace
ray.get_actor("nobody", namespace=b"x") | TypeError | namespace
ray.get_actor("nobody", "elsewhere", 3) | TypeError | get_actor()
ray.get_actor() | TypeError | name
ray.get_actor(a) | TypeError | name of an actor
ray.get_actor(name=None) | ValueError | name
ray.get_actor(["x"]) | TypeError | name of an actor
# init again
ray.init() | RuntimeError | ignore_reinit_error
ray.init(num_cpus=3) | RuntimeError | ignore_reinit_error
ray.init(nonsense=1) | RuntimeError | nonsense
ray.init(num_cpus=-1) | RuntimeError | ignore_reinit_error
ray.init(address="auto") | RuntimeError | ignore_reinit_error
ray.init(ignore_reinit_error=False) | RuntimeError | ignore_reinit_error
ray.init("local") | RuntimeError | ignore_reinit_error
ray.init(None, 3) | TypeError | init()
ray.init(local_mode=True) | RuntimeError | ignore_reinit_error
ray.init(namespace=5) | RuntimeError | ignore_reinit_error
ray.init(namespace="") | RuntimeError | ignore_reinit_error
ray.init(ignore_reinit_error=True, nonsense=1) | RuntimeError | nonsense
# nodes and resources
ray.nodes(1) | TypeError | nodes()
ray.is_initialized(1) | TypeError | is_initialized()
ray.get_gpu_ids(1) | TypeError | get_gpu_ids()
ray.shutdown(1, 2) | TypeError | shutdown()
ray.shutdown(nonsense=1) | TypeError | nonsense
ray.timeline("/nonexistent/folder/x.json") | FileNotFoundError | /nonexistent/folder/x.json
ray.timeline(filename=["x"]) | TypeError | bytes
ray.timeline("/") | IsADirectoryError | '/'
# remote
ray.remote() | AssertionError | @remote
ray.remote(5) | AssertionError | @remote
ray.remote("f") | AssertionError | @remote
ray.remote(None) | AssertionError | @remote
ray.remote(len) | TypeError | @remote
ray.remote(print) | TypeError | @remote
ray.remote(functools.partial(plain, 1)) | TypeError | @remote
ray.remote(Callable()) | TypeError | @remote
ray.remote(f) | TypeError | @remote
ray.remote(A) | TypeError | @remote
ray.remote(Callable().method_of) | TypeError | @remote
ray.remote(coroutine_function) | ValueError | coroutine function
ray.remote(plain, num_cpus=1) | AssertionError | @remote
ray.remote(num_cpus=1, num_gpus=0)(5) | AttributeError | @remote
ray.remote(num_cpus=1)(len) | TypeError | @remote
ray.remote(num_cpus=1)(f) | TypeError | @remote
ray.remote(num_cpus=1)(coroutine_function) | ValueError | coroutine function
ray.remote(plain, plain) | AssertionError | @remote
ray.remote(nonsense=1)(plain) | ValueError | nonsense
ray.remote(nonsense=1)(Plain) | ValueError | nonsense
ray.remote(num_cpus=-1)(plain) | ValueError | num_cpus
ray.remote(num_cpus="two")(plain) | TypeError | num_cpus
ray.remote(max_restarts=1)(plain) | ValueError | max_restarts
ray.remote(num_returns=2)(Plain) | ValueError | num_returns
ray.remote(max_retries=1)(Plain) | ValueError | max_retries
ray.remote(num_returns="streaming")(plain) | ValueError | num_returns
ray.remote(num_returns="dynamic")(plain) | ValueError | num_returns
ray.remote(num_returns=-1)(plain) | ValueError | num_returns
ray.remote(resources={"CPU": 1})(plain) | ValueError | resources
ray.remote(runtime_env="x")(plain) | TypeError | runtime_env
ray.remote(get_if_exists=True)(Plain) | ValueError | get_if_exists
ray.remote(lifetime="weekend")(Plain) | ValueError | lifetime
ray.remote(concurrency_groups=3)(Plain) | TypeError | concurrency_groups
ray.remote(max_concurrency=-1)(Plain) | ValueError | max_concurrency
ray.remote(retry_exceptions=[1])(plain) | ValueError | retry_exceptions
ray.remote(scheduling_strategy=5)(plain) | TypeError | scheduling_strategy
ray.remote(_metadata={})(plain) | ValueError | _metadata
ray.remote({"num_cpus": 1}) | AssertionError | @remote
ray.remote([plain]) | AssertionError | @remote
# functions
f() | TypeError | .remote()
f.remote() | TypeError | 'x'
f.remote(1, 2) | TypeError | too many positional
f.remote(y=1) | TypeError | 'x'
f.remote(1, x=2) | TypeError | 'x'
two.remote(1) | TypeError | 'b'
two.remote(a=1) | TypeError | 'b'
two.remote(1, 2, 3) | TypeError | too many positional
two.remote(1, b=2, c=3) | TypeError | 'c'
keyword_only.remote(1) | TypeError | too many positional
keyword_only.remote() | TypeError | key
f.remote(lock) | TypeError | the argument
f.remote([lock]) | TypeError | the argument
f.remote(x=lock) | TypeError | the argument
f.remote(i for i in "ab") | TypeError | the argument
f.nonsense | AttributeError | nonsense
f.options()() | TypeError | not callable
f.options().nonsense | AttributeError | nonsense
f.options().options(num_cpus=1) | AttributeError | has no attribute
f.options(1) | TypeError | options()
f.options({"num_cpus": 1}) | TypeError | options()
f.options(nonsense=1) | ValueError | nonsense
f.options(num_cpus=-1) | ValueError | num_cpus
f.options(num_cpus="1") | TypeError | num_cpus
f.options(num_gpus=-0.5) | ValueError | num_gpus
f.options(memory="1g") | TypeError | memory
f.options(resources=[1]) | TypeError | resources
f.options(resources={"GPU": 1}) | ValueError | resources
f.options(resources={"a": "1"}) | TypeError | resource 'a'
f.options(num_returns=-1) | ValueError | num_returns
f.options(num_returns="x") | TypeError | num_returns
f.options(num_returns=1.5) | TypeError | num_returns
f.options(num_returns="streaming") | ValueError | num_returns
f.options(max_retries=-2) | ValueError | max_retries
f.options(max_retries="x") | TypeError | max_retries
f.options(max_calls=1) | ValueError | max_calls
f.options(retry_exceptions="yes") | TypeError | retry_exceptions
f.options(retry_exceptions=ValueError) | TypeError | retry_exceptions
f.options(name=5) | TypeError | name
f.options(max_restarts=1) | ValueError | max_restarts
f.options(lifetime="detached") | ValueError | lifetime
f.options(runtime_env=[]) | TypeError | runtime_env
f.options(runtime_env={"env_vars": {"A": 1}}) | TypeError | runtime_env
f.options(scheduling_strategy=5) | TypeError | scheduling_strategy
f.options(placement_group=5) | TypeError | placement_group
f.options(placement_group_bundle_index="x") | TypeError | placement_group_bundle_index
f.options(label_selector=[]) | TypeError | label_selector
f.options(accelerator_type=5) | TypeError | accelerator_type
f.options(object_store_memory=5) | ValueError | object_store_memory
f.options(placement_group=group, scheduling_strategy="SPREAD") | ValueError | scheduling_strategy
o = f.options(scheduling_strategy="spread"); o.remote(1) | ValueError | scheduling strategy
o = f.options(placement_group="x"); o.remote(1) | AssertionError | 'x' is not a placement group
o = f.options(placement_group_bundle_index=1); o.remote(1) | ValueError | placement_group_bundle_index
o = f.options(placement_group=group, placement_group_bundle_index=7); o.remote(1) | ValueError | bundle index
o = f.options(placement_group=group, placement_group_bundle_index=-2); o.remote(1) | ValueError | bundle index
o = f.options(placement_group=group, num_cpus=64); o.remote(1) | ValueError | cannot fit into any bundles
o = f.options(scheduling_strategy=in_group("x")); o.remote(1) | AssertionError | placement_group
o = f.options(scheduling_strategy=in_group(group, 9)); o.remote(1) | ValueError | bundle index
o = f.options(scheduling_strategy=in_group(None, 1)); o.remote(1) | ValueError | placement_group
o = f.options(scheduling_strategy=in_group(group)); o.options(num_gpus=1) | AttributeError | has no attribute
o = f.options(num_gpus=1.5); o.remote(1) | ValueError | GPU
o = f.options(resources={"memory": 1}); o.remote(1) | ValueError | resources
o = f.options(resources={1: 1}); o.remote(1) | AttributeError | resource's name
o = f.options(max_retries=None); o.remote(1) | TypeError | max_retries
o = f.options(_labels={"a": 1}); o.remote(1) | ValueError | _labels
o = f.options(scheduling_strategy="spread"); o.remote() | TypeError | 'x'
o = f.options(scheduling_strategy="spread"); o.remote(lock) | ValueError | scheduling strategy
closes_over_lock.remote() | TypeError | closes_over_lock
# actor classes
A() | TypeError | .remote()
A.remote(1, 2) | TypeError | too many positional
A.remote(x=1) | TypeError | 'x'
NeedsOne.remote() | TypeError | 'x'
NeedsOne.remote(1, 2) | TypeError | too many positional
NeedsOne.remote(y=1) | TypeError | 'x'
NeedsOne.remote(lock) | TypeError | the argument
A.nonsense | AttributeError | nonsense
A.options()() | TypeError | not callable
A.options().nonsense | AttributeError | nonsense
A.options(1) | TypeError | options()
A.options(nonsense=1) | ValueError | nonsense
A.options(num_cpus=-1) | ValueError | num_cpus
A.options(num_returns=2) | ValueError | num_returns
A.options(max_restarts=-2) | ValueError | max_restarts
A.options(max_restarts="x") | TypeError | max_restarts
A.options(max_task_retries=-2) | ValueError | max_task_retries
A.options(max_concurrency="x") | TypeError | max_concurrency
A.options(max_concurrency=-1) | ValueError | max_concurrency
A.options(max_pending_calls=-2) | ValueError | max_pending_calls
A.options(name=5) | TypeError | name
A.options(namespace=5) | TypeError | namespace
A.options(lifetime="weekend") | ValueError | lifetime
A.options(lifetime=5) | TypeError | lifetime
A.options(get_if_exists=True) | ValueError | get_if_exists
A.options(get_if_exists="x", name="n") | TypeError | get_if_exists
A.options(concurrency_groups={"io": 1}) | ValueError | concurrency_groups
A.options(runtime_env="x") | TypeError | runtime_env
A.options(resources={"CPU": 1}) | ValueError | resources
A.options(max_retries=1) | ValueError | max_retries
A.options(retry_exceptions=True) | ValueError | retry_exceptions
A.options(scheduling_strategy=[]) | TypeError | scheduling_strategy
o = A.options(name=""); o.remote() | ValueError | name
o = A.options(namespace=""); o.remote() | ValueError | namespace
o = A.options(name="", get_if_exists=False); o.remote() | ValueError | name
o = A.options(max_restarts=None); o.remote() | TypeError | max_restarts
o = A.options(max_pending_calls=None); o.remote() | TypeError | max_pending_calls
o = A.options(scheduling_strategy="x"); o.remote() | ValueError | scheduling strategy
o = A.options(placement_group=group, placement_group_bundle_index=7); o.remote() | ValueError | bundle index
o = A.options(num_gpus=1.5); o.remote() | ValueError | GPU
o = A.options(allow_out_of_order_execution=False, max_concurrency=2); o.remote() | ValueError | max_concurrency
o = AsyncA.options(allow_out_of_order_execution=False); o.remote() | ValueError | allow_out_of_order_execution
A.options(name="taken").remote() | ActorAlreadyExistsError | name
NeedsOne.options(name="taken").remote() | ActorAlreadyExistsError | name
UndeclaredGroup.remote() | AssertionError | concurrency_group 'io'
o = ray.remote(concurrency_groups={"io": "x"})(Plain); o.remote() | TypeError | concurrency group
o = ray.remote(concurrency_groups={"io": -1})(Plain); o.remote() | OverflowError | concurrency group
o = ray.remote(concurrency_groups=[{"name": "io", "max_concurrency": 2}])(Plain); o.remote() | TypeError | concurrency_groups
# handles and methods
a.m() | TypeError | .remote()
a.nonsense | AttributeError | nonsense
a.field | AttributeError | has no attribute
a.m.nonsense | AttributeError | nonsense
a.m.remote(1) | TypeError | too many positional
a.m.remote(y=1) | TypeError | 'y'
a.add.remote() | TypeError | 'x'
a.add.remote(1, 2) | TypeError | too many positional
a.add.remote(lock) | TypeError | the argument
a.__init__.remote() | AttributeError | has no attribute
a.m.options(1) | TypeError | options()
a.m.options(num_returns=-1) | ValueError | num_returns
a.m.options(num_returns="streaming") | ValueError | num_returns
a.m.options(_num_objects_per_yield=2) | ValueError | _num_objects_per_yield
o = a.m.options(nonsense=1); o.remote() | TypeError | nonsense
o = a.m.options(num_returns="x"); o.remote() | TypeError | num_returns
o = a.m.options(num_returns=[1]); o.remote() | TypeError | num_returns
o = a.m.options(name=5); o.remote() | TypeError | name
o = a.m.options(concurrency_group=5); o.remote() | TypeError | concurrency_group
o = a.m.options(max_task_retries="x"); o.remote() | TypeError | max_task_retries
o = a.m.options(retry_exceptions="x"); o.remote() | AssertionError | retry_exceptions
o = a.m.options(num_cpus=1); o.remote() | TypeError | num_cpus
o = a.m.options(name="ok"); o() | TypeError | not callable
ray.actor.ActorHandle() | TypeError | record
ray.actor.exit_actor() | TypeError | actor
ray.actor.exit_actor(1) | TypeError | exit_actor()
ray.method(nonsense=1) | AssertionError | nonsense
ray.method(1) | AssertionError | @method
ray.method(num_cpus=1)(plain_method) | AssertionError | num_cpus
ray.method(num_returns=2, nonsense=1) | AssertionError | nonsense
ray.method(plain_method, num_returns=2) | AssertionError | num_returns
ray.remote(type("M", (), {"m": ray.method(num_returns=-1)(lambda self: 1)})) | ValueError | num_returns
ray.remote(type("M", (), {"m": ray.method(num_returns="streaming")(lambda self: 1)})) | ValueError | num_returns
k = killed(); ray.get(k.m.remote()) | ActorDiedError | kill
k = A.options(max_pending_calls=1).remote(); r = k.hang.remote(); k.m.remote() | PendingCallsLimitExceeded | max_pending_calls
# references
ray.ObjectRef() | TypeError | id
ray.ObjectRef(5) | TypeError | bytes
ray.ObjectRef("ab" * 28) | TypeError | bytes
ray.ObjectRef(b"short") | ValueError | bytes
ray.ObjectRef(None) | TypeError | bytes
ray.ObjectRef.from_binary(b"x") | ValueError | bytes
iter(ref) | TypeError | ObjectRef
ref.nonsense | AttributeError | nonsense
ref.hex(1) | TypeError | hex()
ref.future(1, 2) | TypeError | future()
ray.ActorID(b"x") | ValueError | bytes
ray.ActorID("x") | TypeError | bytes
ray.TaskID(b"") | ValueError | bytes
ray.TaskID.from_hex(5) | TypeError | expected the text of an id, int found
ray.JobID(b"too long for it") | ValueError | bytes
ray.NodeID(5) | TypeError | bytes
ray.WorkerID(None) | TypeError | bytes
ray.PlacementGroupID(b"x") | ValueError | bytes
# generators
ray.get([gen.remote()]) | TypeError | `get`
ray.put(gen.remote()) | TypeError | put
ray.put([gen.remote()]) | TypeError | the put value
ray.wait(gen.remote()) | TypeError | wait()
g = gen.remote(); ray.wait([g, g]) | ValueError | ray_waitables
ray.kill(gen.remote()) | ValueError | ray.kill()
f.remote(gen.remote()) | TypeError | the argument
f.remote([gen.remote()]) | TypeError | the argument
NeedsOne.remote(gen.remote()) | TypeError | the argument
a.add.remote(gen.remote()) | TypeError | the argument
g = gen.remote(); list(g); next(g) | StopIteration |
gen.remote()[0] | TypeError | ObjectRefGenerator
len(gen.remote()) | TypeError | ObjectRefGenerator
gen.remote().nonsense | AttributeError | nonsense
gen.remote().send(1) | NotImplementedError | sent
gen.remote().throw(ValueError) | NotImplementedError | sent
gen.remote().close() | NotImplementedError | sent
pickle.dumps(gen.remote()) | TypeError | ObjectRefGenerator
copy.copy(gen.remote()) | TypeError | ObjectRefGenerator
g = bad_stream.remote(); next(g); ray.get(next(g)) | RayTaskError(ValueError) | bad_stream
g = bad_stream.remote(); next(g); next(g); next(g) | StopIteration |
ray.get(gen.options(num_returns=3).remote()) | RayTaskError(ValueError) | num_returns
gen.options(_generator_backpressure_num_objects=0) | ValueError | _generator_backpressure_num_objects
gen.options(_num_objects_per_yield=2) | ValueError | _num_objects_per_yield
ray.ObjectRefGenerator() | TypeError | stream
ray.DynamicObjectRefGenerator() | TypeError | refs
# references
ray.get(ray.ObjectRef.nil()) | ValueError | the object
ray.wait([ray.ObjectRef.nil(), ray.ObjectRef.nil()]) | ValueError | ray_waitables
ray.cancel(ray.ObjectRef.nil()) | TypeError | nothing to cancel
ray.put([lambda: lock]) | TypeError | the put value
ref.task_id(1) | TypeError | task_id()
# results
ray.get(returns_lock.remote()) | RayTaskError(TypeError) | lock
ray.get(two.options(num_returns=3).remote(1, 2)) | RayTaskError(ValueError) | num_returns
ray.get(two.options(num_returns=1).remote(lock, 2)) | TypeError | the argument
ray.get(f.options(num_returns=2).remote(5)) | RayTaskError(TypeError) | num_returns
ray.get(f.remote(ray.put(Unbuildable()))) | RayTaskError(RaySystemError) | no len()
ray.get(ray.put(Unbuildable())) | RaySystemError | no len()
ray.get(f.remote(Unbuildable())) | RayTaskError(RaySystemError) | no len()
# actors and tasks that have died or failed, and wrong calls
k = killed(); ray.get(k.add.remote(1)) | ActorDiedError | kill
k = killed(); k.add.remote() | TypeError | 'x'
k = killed(); ray.get(f.remote(k.m.remote())) | RayTaskError(ActorDiedError) | input arguments
ray.get(NeedsOne.remote(fails.remote()).m.remote()) | ActorDiedError | input arguments
ray.get(fails.remote()) | RayTaskError(KeyError) | fails
ray.get(f.remote(fails.remote())) | RayTaskError(KeyError) | input arguments
ray.get([ref, fails.remote()]) | RayTaskError(KeyError) | fails
r = hang.options(num_cpus=1000).remote(); ray.cancel(r); ray.get(r) | TaskCancelledError | cancelled
defaults.remote(1, 2, 3) | TypeError | too many positional
defaults.remote(b=1) | TypeError | 'a'
variadic.remote(c=1) | TypeError | 'c'
positional_only.remote(x=1) | TypeError | 'x'
a.static.remote() | TypeError | 'x'
a.static.remote(1, 2) | TypeError | too many positional
a.klass.remote(1) | TypeError | too many positional
a.prop | AttributeError | has no attribute
a.two_returns.options(num_returns=3).nonsense | AttributeError | nonsense
ray.get(a.two_returns.options(num_returns=3).remote()) | RayTaskError(ValueError) | num_returns
ray.get(a.boom.remote()) | RayTaskError(KeyError) | boom
a.add.options().remote() | TypeError | 'x'
"""
