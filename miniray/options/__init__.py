"""What the options of tasks, actors, methods and `init` may be, and what they ask for. Pure functions.

A bad option is refused at one of two moments. Both are Ray's choice, and programs depend on them:

- when it is given, to `@remote(...)`, `@method(...)` or `.options(...)` (`when_given`): an unknown name, a wrong type,
  a value out of range, an impossible combination;
- at `.remote()` (`at_call`): the mistakes that Ray finds only when it submits. The order is:
  `check_before_arguments`; the arguments against the signature (`signatures`); `requested_resources` or
  `actor_resources` (`resources`); then `check_task_call`, `check_actor_call` or `check_method_call`. Only after these
  are the arguments serialized.

An unknown name or a bad value is a ValueError, and a wrong type is a TypeError; the few exceptions to this rule are
Ray's. Each text names the option. Options are checked in the order in which they were given, and the first bad option
is reported. Ray: ray/_common/ray_option_utils.py.
"""
