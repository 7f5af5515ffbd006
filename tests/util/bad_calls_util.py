"""Bad calls of `miniray.util`: queues, pools, placement groups, strategies. The format is that of `bad_calls_core`."""

CALLS = r"""
# queue
queue.Queue(actor_options={"num_cpus": -1}) | ValueError | num_cpus
queue.Queue(actor_options={"nonsense": 1}) | ValueError | nonsense
queue.Queue(1, 2, 3) | TypeError | __init__()
q.get(timeout=-1) | ValueError | timeout
q.get(timeout="x") | TypeError | timeout
q.get(block=False) | Empty |
q.get(timeout=0.01) | RayTaskError(Empty) |
q.get_nowait() | Empty |
q.get_nowait_batch(1) | RayTaskError(Empty) |
q.get_nowait_batch(-1) | ValueError | num_items
q.get_nowait_batch("x") | TypeError | num_items
q.get_nowait_batch(1.5) | TypeError | num_items
q.put(1, timeout=-1) | ValueError | timeout
q.put(1, timeout="x") | TypeError | timeout
q.put(lock) | TypeError | the argument
q.put() | TypeError | item
full.put(1, block=False) | Full |
full.put(1, timeout=0.01) | RayTaskError(Full) |
full.put_nowait(1) | Full |
full.put_nowait_batch([1, 2]) | RayTaskError(Full) |
full.put_nowait_batch(5) | TypeError | items
q.put_nowait_batch(5) | TypeError | items
q.nonsense | AttributeError | nonsense
# actor pool
util.ActorPool() | TypeError | actors
util.ActorPool(5) | TypeError | 'int'
util.ActorPool(None) | TypeError | 'NoneType'
util.ActorPool([a]).get_next() | StopIteration | No more results
util.ActorPool([a]).get_next_unordered() | StopIteration | No more results
util.ActorPool([a]).submit(5, 1) | TypeError | 'int'
util.ActorPool([a]).submit(lambda a: a.m.remote(), 1) | TypeError | argument
util.ActorPool([a]).submit(lambda a, v: a.m.remote()) | TypeError | value
list(util.ActorPool([a]).map(lambda a, v: a.m.remote(), 5)) | TypeError | 'int'
list(util.ActorPool([a]).map(5, [1])) | TypeError | 'int'
util.ActorPool([a]).push(a) | ValueError | actor
list(util.as_completed(5)) | TypeError | 'int'
list(util.as_completed([5])) | TypeError | wait()
list(util.as_completed([ref], chunk_size="x")) | TypeError | chunk_size
# pool of processes
multiprocessing.Pool(-1) | ValueError | process
multiprocessing.Pool(0) | ValueError | process
multiprocessing.Pool("x") | TypeError | processes
multiprocessing.Pool(1.5) | TypeError | 'float'
multiprocessing.Pool(1000) | ValueError | processes
multiprocessing.Pool(1, ray_remote_args={"nonsense": 1}) | ValueError | nonsense
multiprocessing.Pool(1, nonsense=1) | TypeError | nonsense
pool.apply(5) | TypeError | 'int'
pool.apply(plain, 5) | TypeError | argument
pool.map(plain, 5) | TypeError | 'int'
pool.map(plain) | TypeError | iterable
pool.map(5, [1]) | TypeError | 'int'
pool.map(plain, [1], chunksize="x") | TypeError | chunksize
pool.map(plain, [1], chunksize=-1) | AssertionError | chunksize
pool.starmap(plain, [1]) | TypeError | argument
list(pool.imap(plain, 5)) | TypeError | 'int'
pool.apply_async(plain, (1,)).get(timeout="x") | TypeError | timeout
pool.join() | ValueError | close()
c = multiprocessing.Pool(1); c.close(); c.apply(plain, (1,)) | ValueError | not running
c = multiprocessing.Pool(1); c.terminate(); c.apply_async(plain, (1,)) | ValueError | not running
# placement groups
util.placement_group() | TypeError | bundles
util.placement_group([]) | ValueError | Bundles
util.placement_group(None) | ValueError | bundle
util.placement_group({}) | ValueError | bundle
util.placement_group("CPU") | ValueError | bundle
util.placement_group([{}]) | ValueError | Bundles
util.placement_group([{"CPU": 0}]) | ValueError | Bundles
util.placement_group(["CPU"]) | ValueError | Bundles
util.placement_group([{1: 1}]) | ValueError | resource
util.placement_group([{"CPU": "1"}]) | ValueError | bundle
util.placement_group([{"CPU": None}]) | ValueError | bundle
util.placement_group([{"CPU": 1}], strategy="TIGHT") | ValueError | strategy
util.placement_group([{"CPU": 1}], strategy=5) | ValueError | strategy
util.placement_group([{"CPU": 1}], lifetime="weekend") | ValueError | lifetime
util.placement_group([{"CPU": 1}], lifetime=5) | ValueError | lifetime
util.placement_group([{"CPU": 1}], name=5) | TypeError | name
util.placement_group([{"CPU": 1}], nonsense=5) | TypeError | nonsense
util.placement_group([{"CPU": 1}], bundle_label_selector=[]) | ValueError | bundle_label_selector
util.placement_group([{"CPU": 1}], bundle_label_selector=[{"a": 1}]) | ValueError | label selector
util.placement_group([{"CPU": 1}], _soft_target_node_id="ab") | ValueError | _soft_target_node_id
util.placement_group([{"CPU": 1}], "PACK", "", None, None, None, None, None, 9) | TypeError | placement_group()
util.placement_group([{"CPU": 0.01}], name="same") | RaySystemError | name
util.get_placement_group("") | ValueError | name
util.get_placement_group("nobody") | ValueError | name
util.get_placement_group(None) | ValueError | name
util.get_placement_group(5) | TypeError | name
util.get_placement_group() | TypeError | placement_group_name
util.remove_placement_group(None) | AssertionError | no placement group
util.remove_placement_group("x") | AttributeError | has no attribute
util.remove_placement_group(5) | AttributeError | has no attribute
util.remove_placement_group() | TypeError | placement_group
util.placement_group_table("x") | AttributeError | has no attribute
util.placement_group_table(5) | AttributeError | has no attribute
group.wait("x") | TypeError | timeout_seconds
group.wait(timeout_seconds=None) | TypeError | timeout_seconds
group.wait(nonsense=1) | TypeError | nonsense
group.nonsense | AttributeError | nonsense
group.ready(1) | TypeError | ready()
big = util.placement_group([{"CPU": 512}]); ray.get(big.ready(), timeout=0.01) | GetTimeoutError | bundle
gone = removed_group(); ray.get(gone.ready(), timeout=10) | TaskPlacementGroupRemoved | removed
gone = removed_group(); gone.wait(1) | Exception | does not exist
PlacementGroup() | TypeError | id
PlacementGroup("x").ready() | AttributeError | has no attribute
util.get_current_placement_group(1) | TypeError | get_current_placement_group()
# scheduling strategies
in_group() | TypeError | placement_group
on_node() | TypeError | node_id
on_node("zz", soft=False) | ValueError | node's id
on_node("", soft=True) | ValueError | node's id
on_node(5, soft=True) | AttributeError | has no attribute
on_node(None, soft=True) | AttributeError | has no attribute
on_node(NODE) | TypeError | soft
on_node(NODE, soft=False, _spill_on_unavailable=True) | ValueError | _spill_on_unavailable
on_node(NODE, soft=True, _fail_on_unavailable=True) | ValueError | _fail_on_unavailable
labelled() | TypeError | hard
labelled("x") | ValueError | hard
labelled({"a": 1}) | ValueError | hard
labelled({1: In("a")}) | ValueError | hard
labelled({}, soft=[]) | ValueError | soft
labelled({}, soft={}) | ValueError | soft
In() | ValueError | In
In(1) | ValueError | In
NotIn() | ValueError | NotIn
NotIn(None) | ValueError | NotIn
Exists(1) | TypeError | Exists()
ray.get(f.options(scheduling_strategy=on_node(NODE, soft=False)).remote(1), timeout=20) | TaskUnschedulableError | node abab
ray.get(A.options(scheduling_strategy=on_node(NODE, soft=False)).remote().m.remote(), timeout=20) | ActorUnschedulableError | abab
# runtime context
context.current_actor | RuntimeError | actor
context.was_current_actor_reconstructed | AssertionError | actor
context.get_assigned_resources() | AssertionError | actor
context.nonsense | AttributeError | nonsense
context.get_task_id(1) | TypeError | get_task_id()
ray.get_runtime_context(1) | TypeError | get_runtime_context()
context.get_node_labels(1) | TypeError | get_node_labels()
util.list_named_actors(1, 2) | TypeError | list_named_actors()
util.list_named_actors(nonsense=1) | TypeError | nonsense
# serializers
util.register_serializer(Plain) | TypeError | serializer
util.register_serializer(Plain, len, len) | TypeError | register_serializer()
util.deregister_serializer() | TypeError | cls
ray.cloudpickle.dumps(lock) | TypeError | lock
ray.cloudpickle.loads(b"") | EOFError |
ray.cloudpickle.loads(5) | TypeError | bytes
util.inspect_serializability() | TypeError | base_obj
# graphs of calls
f.bind(1).nonsense | AttributeError | nonsense
A.bind().nonsense | AttributeError | nonsense
# missing names
ray.exceptions.nonsense | AttributeError | nonsense
ray.nonsense | AttributeError | nonsense
ray.util.nonsense | AttributeError | nonsense
"""
