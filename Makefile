# For a first look: `make demo` and `make test`. While you work: `make fast`. Before a commit: `make check`.
# PYTHON may be any Python from 3.10 on. Only pip uses the network, `make clients` and `make judges`.

PYTHON ?= python3
RAY_PYTHON ?= python3
N ?= 1000
SEED ?= 1
ROUNDS ?= 3
# What `make bench` measures: the peers of the README's table, and patterns of workload names.
BACKENDS ?= tpe,queue,plain,asyncio,miniray,miniray-local,miniray-unrecorded
WORKLOADS ?= *

VENV := .venv
IN_VENV := $(VENV)/bin/python
PYTEST := $(IN_VENV) -m pytest
PIP := $(IN_VENV) -m pip install --quiet --disable-pip-version-check
QUICK := $(addprefix tests/,core options values runtime process api util observe tidy) \
    $(addprefix tests/telemetry/test_,await_chains.py otlp_encoding.py)
# Files of these folders that start programs or browsers, call or read everything, or wait for time to pass.
LONGER := $(addprefix --ignore tests/,observe/test_doctor.py observe/timeline/test_timeline_browser.py \
    process/test_sigterm.py process/test_bare_interpreter.py runtime/test_foreign_code.py tidy/test_readme.py \
    tidy/test_leftovers.py observe/logs/test_tqdm_ray.py process/test_signal_handlers.py)

.PHONY: demo test fast check lint types bench table bench-ray soak chapters refresh ray-check differential clients seeds \
    judges mutants chaos simulated simulated-chaos simulated-figures planted bugs foreign conformance-stress conformance-alias clean

demo:
	$(PYTHON) -m miniray demo

# Two processes at a time: tests/halves.py.
test: $(VENV)/.pytest
	$(IN_VENV) -m tests.halves

# The unit tests of every layer and the tidy tests. Takes about 18 s on two idle cores (under 20 s is the aim): it leaves out
# the slow tests, the files and folders whose tests start programs, and all seeds but one.
fast: $(VENV)/.pytest
	$(PYTEST) -q -x -m 'not slow' --seed 1 $(QUICK) $(LONGER)

check: lint types test

lint: $(VENV)/.tools
	$(IN_VENV) -m ruff check miniray tests examples
	$(IN_VENV) -m ruff format --check miniray tests examples

types: $(VENV)/.tools
	$(IN_VENV) -m mypy

chapters: $(VENV)/.pytest
	$(PYTEST) tests/chapters tests/tidy/test_readme.py

# Regenerate the excerpts and pictures of the chapters from the code.
refresh: $(VENV)/.pytest
	$(IN_VENV) -m tests.chapters.book --refresh

# Run the examples on real Ray, and compare their output line by line. RAY_PYTHON is a Python that has Ray installed.
ray-check:
	$(PYTHON) -m tests.chapters.ray_check --ray-python '$(RAY_PYTHON)' --record

# Run unmodified libraries from PyPI that use Ray, each in its own virtual environment. CLIENTS: parts of their names.
clients:
	$(PYTHON) -m tests.clients.run $(CLIENTS)

# Open the traces and pages of prepared runs in other people's viewers and checkers: Perfetto, speedscope,
# chrome://tracing, the Nu Html Checker, html-validate, axe. Installs them once, outside the repository. Takes minutes.
judges:
	$(PYTHON) -m tests.judges.run $(RUNS)

# Run N generated programs on real Ray and on miniray, after the zoos of values and of the interpreter's state, and compare.
differential:
	$(PYTHON) -m tests.differential.run --ray-python '$(RAY_PYTHON)' -n $(N)

# Send random events to the core under N seeds. A seed that fails is printed with the command that replays it.
seeds: $(VENV)/.pytest
	$(PYTEST) -q -m seeds --seeds $(N)

# Mutation testing: N small mistakes in the core, one at a time. The report names those that no test has noticed.
mutants: N := 250
mutants: $(VENV)/.pytest
	$(IN_VENV) -m tests.mutants.run --n $(N) --seed $(SEED)

# Run whole programs under N seeds. Under each seed, a plan kills workers and nodes and loses values. With FOREIGN=1, here
# and for `soak`, finalisers, callbacks of weak references and signal handlers call miniray at every possible moment.
chaos:
	$(PYTHON) -m tests.runtime.chaos --seeds $(N) $(if $(FOREIGN),--foreign)

# The simulated runtime: the chaos programs under N seeds; then its speed, and its memory over N runs.
simulated-chaos:
	$(PYTHON) -m tests.runtime.simulated.long_runs chaos --seeds $(N)

simulated-figures:
	$(PYTHON) -m tests.runtime.simulated.long_runs speed
	$(PYTHON) -m tests.runtime.simulated.long_runs memory --seeds $(N)

# All conformance cases and the tests of the behaviour suite on the simulated runtime, with each of N seeds. Each case
# runs twice under a seed, in two processes with two hash seeds, which must give the same event log; then all other tests
# with simulated sessions do.
simulated: N := 20
simulated: $(VENV)/.pytest
	$(PYTEST) -q tests/conformance tests/runtime -k simulated --simulated-seeds $(N)
	$(IN_VENV) -m tests.runtime.simulated.twice

# Plant mistakes in the core, one at a time, and tell how many seeds of a simulation it takes to notice each.
planted: N := 25
planted:
	$(PYTHON) -m tests.runtime.simulated.planted.run --seeds $(N)

# The figures of the ten programs in examples/bugs: how soon each bug is found, its fix under 10,000 seeds, and so on.
bugs:
	for what in find fixed exhaustive threads; do $(PYTHON) -m tests.testing.bugs_measured $$what || exit 1; done

# For N rounds, finalisers, callbacks of weak references and signal handlers call miniray at every possible moment.
foreign: $(VENV)/.pytest
	$(PYTEST) -q tests/runtime/test_foreign_code.py --foreign-rounds $(N)

# Compare with Ray's recorded answers, and run the tests of the runtimes, while Python switches threads as often as it can.
conformance-stress: $(VENV)/.pytest
	$(PYTEST) -q tests/conformance tests/runtime tests/process tests/values tests/api --switch-interval 1e-6

# Compare with the same answers, with `import ray` under the alias. Ray need not be installed.
conformance-alias: $(VENV)/.pytest
	$(PYTEST) -q tests/conformance --through-alias

bench:
	$(PYTHON) -m tests.bench.bench --backend '$(BACKENDS)' --workload '$(WORKLOADS)' --rounds $(ROUNDS)

# The ratios that miniray should reach, measured on a machine that must be idle: tests/bench/table.py.
table:
	$(PYTHON) -m tests.bench.table

# Run 200,000 tasks through a small object store. Memory, threads, file descriptors and files must not grow.
soak:
	$(PYTHON) -m tests.bench.soak $(if $(FOREIGN),--foreign)

# The same benchmark with real Ray as well. RAY_PYTHON is a Python that has Ray installed.
bench-ray:
	$(PYTHON) -m tests.bench.bench --backend '$(BACKENDS),ray' --workload '$(WORKLOADS)' --rounds $(ROUNDS) \
	    --ray-python '$(RAY_PYTHON)'

$(VENV)/.pytest:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	    { echo "miniray needs Python 3.10 or newer; $(PYTHON) is older. Try: make $(MAKECMDGOALS) PYTHON=python3.12"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(PIP) pytest
	@touch $@

$(VENV)/.tools: $(VENV)/.pytest
	$(PIP) ruff mypy
	@touch $@

clean:
	rm -rf $(VENV) .venvs build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find miniray tests examples chapters -name __pycache__ -type d -prune -exec rm -rf {} +
