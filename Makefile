# What a newcomer needs is `make demo` and `make test`; what has to pass before a commit is `make check`.
# PYTHON may be any Python from 3.10 on. Only pip reaches for the network.

PYTHON ?= python3
RAY_PYTHON ?= python3
N ?= 1000
ROUNDS ?= 3
# The workloads of the README's table, and the peers they are measured against.
BACKENDS ?= tpe,queue,plain,asyncio,miniray,miniray-local,miniray-unrecorded
WORKLOADS ?= *

VENV := .venv
IN_VENV := $(VENV)/bin/python
PYTEST := $(IN_VENV) -m pytest
PIP := $(IN_VENV) -m pip install --quiet --disable-pip-version-check
QUICK := $(wildcard tests/core tests/options tests/values tests/runtime tests/process tests/api tests/util)

.PHONY: demo test fast check lint types bench bench-ray soak chapters refresh ray-check differential clients seeds chaos \
    conformance-stress conformance-alias clean

demo:
	$(PYTHON) -m miniray demo

test: $(VENV)/.pytest
	$(PYTEST)

fast: $(VENV)/.pytest
	$(PYTEST) -q -x $(QUICK) tests/tidy

check: lint types test

lint: $(VENV)/.tools
	$(IN_VENV) -m ruff check miniray tests examples

types: $(VENV)/.tools
	$(IN_VENV) -m mypy

chapters: $(VENV)/.pytest
	$(PYTEST) tests/chapters tests/tidy/test_readme.py

# The excerpts and pictures of the chapters, taken from the code anew.
refresh: $(VENV)/.pytest
	$(IN_VENV) -m tests.chapters.book --refresh

# The examples on real Ray, compared line by line. RAY_PYTHON is a Python that has it installed.
ray-check:
	$(PYTHON) -m tests.chapters.ray_check --ray-python '$(RAY_PYTHON)' --record

# Libraries from PyPI that use Ray, unchanged, on miniray: each in a virtual environment of its own. CLIENTS: some of them.
clients:
	$(PYTHON) -m tests.clients.run $(CLIENTS)

# N generated programs on real Ray and on miniray, after the zoos of values and of the interpreter's state: what differs?
differential:
	$(PYTHON) -m tests.differential.run --ray-python '$(RAY_PYTHON)' -n $(N)

# Search: random events under N seeds. A seed that fails is printed with the command that replays it.
seeds: $(VENV)/.pytest
	$(PYTEST) -q -m seeds --seeds $(N)

# Chaos: whole programs under N seeds, while a plan made from the seed kills workers and nodes and loses values.
chaos:
	$(PYTHON) -m tests.runtime.chaos --seeds $(N)

# The recorded answers of Ray again, and what is asked of the runtimes, while Python changes threads as often as it can.
conformance-stress: $(VENV)/.pytest
	$(PYTEST) -q tests/conformance tests/runtime tests/process tests/values tests/api --switch-interval 1e-6

# They are miniray's answers, too, when a program says `import ray` under the alias, where Ray need not be installed.
conformance-alias: $(VENV)/.pytest
	$(PYTEST) -q tests/conformance --through-alias

bench:
	$(PYTHON) -m tests.bench.bench --backend '$(BACKENDS)' --workload '$(WORKLOADS)' --rounds $(ROUNDS)

# Two hundred thousand tasks through a small store: memory, threads, descriptors and files must not grow.
soak:
	$(PYTHON) -m tests.bench.soak

# The same with real Ray: RAY_PYTHON is a Python that has it installed.
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
