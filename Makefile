# Every target sets up .venv by itself. Needs Python >= 3.11 (with venv) and make, nothing else.
#
#   make demo    two workers serve a real model; round_robin against lbgr_plus (about 3 minutes)
#   make test    linters, then every test but the soak tests
#   make soak    the same checks with full counts
#   make paper   simulate every study behind docs/benchmarks.md (QUICK=1: one seed)
#   make lint    ruff, mypy, buf
#   make protos  regenerate kvroute/v1 from protos/
#   make clean   remove .venv and caches
#   make compare-dynamo, compare-vllm, compare-sglang
#                environments of rivals in .venv-compare, for `kvroute bench ... --vs NAME`
#
#   make PYTHON=/path/to/python3.12      another interpreter
#   make PIP_ARGS='--find-links DIR'     more arguments for pip, e.g. to choose a torch build
#   make test PYTEST_ARGS='-k settings'  more arguments for pytest

.DEFAULT_GOAL := help
.PHONY: help demo test soak paper lint protos clean setup compare-dynamo compare-vllm compare-sglang

PIP_ARGS ?=
PYTEST_ARGS ?=
DEMO_ARGS ?=
PAPER_ARGS ?=

# The first interpreter that runs and is new enough: a command of that name may exist and still fail.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; \
	done)

VENV := .venv
BIN := $(VENV)/bin
# Named after what it depends on, so that a touched file alone installs nothing again.
STAMP := $(VENV)/.stamp-$(shell cat pyproject.toml constraints.txt | cksum | cut -d' ' -f1)

help:
	@sed -n '1,16s/^# \{0,1\}//p' Makefile

setup: $(STAMP)

$(STAMP):
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 with venv found; give PYTHON=/path/to/it" >&2; exit 1; }
	@test -x $(BIN)/python || { \
		echo "Setting up $(VENV) with $(PYTHON)."; \
		$(PYTHON) -m venv $(VENV); }
	@echo "Installing kvroute[dev] at the tested versions, torch included (minutes, once; log in $(VENV)/pip.log)."
	@rm -f $(VENV)/.stamp-*
	@$(BIN)/python -m pip install --disable-pip-version-check -c constraints.txt $(PIP_ARGS) \
		-e '.[dev]' > $(VENV)/pip.log 2>&1 || { tail -n 25 $(VENV)/pip.log >&2; exit 1; }
	@touch $@

demo: $(STAMP)
	@$(BIN)/kvroute demo $(DEMO_ARGS)

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/python scripts/protos.py lint

# On a machine shared with others more threads than this only wait for each other.
test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not soak" $(PYTEST_ARGS)

soak: $(STAMP)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak $(PYTEST_ARGS)

paper: $(STAMP)
	$(BIN)/python scripts/paper.py $(if $(QUICK),--quick) $(PAPER_ARGS)

protos: $(STAMP)
	$(BIN)/python scripts/protos.py generate

# Rivals are measured in environments of their own: what they need never mixes with what we need.
# Named after the pins, so that an environment is built again only when they change.
COMPARE := .venv-compare
compare_stamp = $(COMPARE)/$(1)/.stamp-$(shell cksum < scripts/compare/$(1).txt | cut -d' ' -f1)

compare-dynamo: $(call compare_stamp,dynamo)
compare-vllm: $(call compare_stamp,vllm)
compare-sglang: $(call compare_stamp,sglang)

# vLLM fails on import beside these (`operator torchvision::nms does not exist`); it needs none.
UNWANTED_vllm := torchvision torchaudio torchcodec

$(COMPARE)/%:
	@test -n "$(PYTHON)" || { echo "make: no Python >= 3.11 with venv found; give PYTHON=/path/to/it" >&2; exit 1; }
	@scripts/compare/install.sh $(firstword $(subst /, ,$*)) "$(PYTHON)" "$@" \
		"$(UNWANTED_$(firstword $(subst /, ,$*)))" $(PIP_ARGS)

clean:
	rm -rf $(VENV) dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
