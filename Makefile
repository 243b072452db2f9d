# jitad: `make help` lists what there is.  Nothing is needed but make and Python 3.11 or newer:
# each target makes .venv and installs what it uses into it, once.

SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
# The first Python that is new enough; `make PYTHON=/path/to/python demo` picks another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
WORKERS ?= 2
# Each worker has a part of the list, so that most files are compiled in one process, and takes from the other's end.
# -rs prints why tests were skipped.
TESTS = $(PY) -m pytest -rs -n $(WORKERS) --dist worksteal
SECONDS ?= 60
# Tests whose outcome depends on the processor: they compare floats to the last bit, or look at machine code.
CODE = tests/lowering tests/kernels tests/loops tests/passes tests/arrays tests/data/test_array_programs.py \
	tests/data/test_random_numbers.py tests/ir/test_random_ir.py tests/language/test_round.py tests/language/test_math.py \
	tests/derivatives/test_checkpoint.py tests/derivatives/test_vmap.py tests/calls/test_call_threads.py
DATA ?= $(firstword $(wildcard ../shared/data))
export PYTHONUNBUFFERED := 1
# Bytecode is kept, whatever the environment says: without it each process compiles jitad anew, in 1.2 s of 1.5.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo check test long all cpus fuzz mutants planted lint docs bench test-gpu bench-gpu clean

help: ## this list
	@echo "make TARGET, where TARGET is one of"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-9s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(VENV)/.examples ## train three differentiable programs on real data (under three minutes)
	@$(PY) -m examples.demo $(if $(DATA),--data $(DATA))

check: lint ## after each change: lint, types, and of each test its first case
	@$(TESTS) --first tests

test: $(VENV)/.test ## all tests; of the long ones, such as random programs and NumPy's whole interface, a sample
	@$(TESTS) --long sample tests

long: $(VENV)/.test ## the cases that `make test` leaves out
	@$(TESTS) --long rest tests

all: $(VENV)/.test ## both, in one run; PART=1/3, 2/3 or 3/3: every third one of the long cases
	@$(TESTS) --some-as-users $(if $(PART),--long $(PART)) tests

CPUS ?= x86-64-v2 x86-64-v3 x86-64-v4
cpus: $(VENV)/.test ## tests of machine code as for x86-64-v2, -v3 and -v4 (CPUS=), where this machine can run it
	@status=0; for cpu in $(CPUS); do \
		if JITAD_CPU=$$cpu $(PY) -c "from jitad.lowering.jit.cpu import target; target()" 2>/dev/null; then \
			echo "JITAD_CPU=$$cpu" && JITAD_CPU=$$cpu $(TESTS) --first --slow $(CODE) || status=1; \
		else echo "JITAD_CPU=$$cpu: not on this machine"; fi; done; exit $$status

fuzz: $(VENV)/.test ## random programs: SECONDS=60, or COUNT=100000; SEED= (from the clock), WORKERS=2
	@$(PY) -m tests.fuzzing --seconds $(SECONDS) --workers $(WORKERS) $(if $(COUNT),--count $(COUNT)) \
		$(if $(SEED),--seed $(SEED)) --table $(FUZZ)

mutants: $(VENV)/.test ## mutants of the benchmark's programs, with all passes and without: SECONDS=60, SEED= (from the clock)
	@$(PY) -m tests.fuzzing.mutants --seconds $(SECONDS) $(if $(SEED),--seed $(SEED))

planted: $(VENV)/.test ## seven bugs planted in the compiler, each found by random programs and made small
	@$(PY) -m tests.fuzzing.planted

lint: $(VENV)/.test ## ruff, and mypy (strict)
	@$(PY) -m ruff check .
	@rm -rf out/typed/jitad && mkdir -p out/typed/jitad
	@ln -s $(CURDIR)/jitad/* $(CURDIR)/lowering $(CURDIR)/kernels out/typed/jitad
	@cd out/typed && ../../$(PY) -m mypy --config-file ../../pyproject.toml -p jitad

docs: $(VENV)/.docs ## the site, in out/site
	@$(PY) -m sphinx -q -W --keep-going -b html docs out/site && echo "out/site/index.html"

bench: $(VENV)/.bench ## every benchmark against its peers, one core, 20 minutes (out/bench/index.html); ARGS="--quick"
	@$(PY) -m bench $(if $(DATA),--data $(DATA)) $(ARGS)

# With PY=python3 these take a Python as it is, with the packages that it has: for a machine without a network.
GIVEN := $(filter command,$(origin PY))

test-gpu: $(if $(GIVEN),,$(VENV)/.test) ## the tests of GPU code on this machine's NVIDIA GPU; PY=python3 installs nothing
	@$(call need_driver,tests)
	@$(if $(GIVEN),,$(MAKE) --no-print-directory $(VENV)/.cuda)
	@JITAD_TEST_DEVICE=1 $(PY) -m pytest tests/gpu $(ARGS)

bench-gpu: $(if $(GIVEN),,$(VENV)/bin/python) ## the benchmarks there, beside JAX and PyTorch if they are installed; PY=python3
	@$(call need_driver,benchmarks)
	@$(if $(GIVEN),,$(MAKE) --no-print-directory $(VENV)/.cuda)
	@$(PY) -m bench.device $(ARGS)

# Before anything is installed for it.
need_driver = $(PY) -c "import ctypes; ctypes.CDLL('libcuda.so.1')" 2>/dev/null || { \
	echo "no $(1) on a GPU: there is no NVIDIA driver on this machine (libcuda.so.1); the simulator needs none" >&2; exit 1; }

clean: ## remove what was made here, .venv included
	rm -rf $(VENV) out build *.egg-info

# --- the environment: one stamp file for each set of extras ----------------------------------------

$(VENV)/bin/python:
	@if [ -z "$(PYTHON)" ]; then \
		echo "jitad needs Python 3.11 or newer, and there is none on the path (python3: $$(python3 --version 2>&1))." >&2; \
		echo "Install one, or name it: make PYTHON=/path/to/python3.11" >&2; exit 1; fi
	@echo "making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "\
	$(PYTHON) cannot make a virtual environment (on Debian: apt install python3-venv)." >&2; exit 1; }
	@$(PY) -m pip install -q --disable-pip-version-check --upgrade pip

$(VENV)/.%: pyproject.toml | $(VENV)/bin/python
	@echo "installing jitad[$*] into $(VENV)"
	@PYTHONWARNINGS=ignore $(PY) -m pip install -q --disable-pip-version-check -e '.[$*]'
	@touch $@
