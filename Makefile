# Two commands: `make demo` sets everything up and plays an episode, `make test` sets everything up and passes the tests.
# Blender comes from PyPI, for Python 3.11 and 3.13; another Python needs SCENEACT_BLENDER=/path/to/blender.
PYTHON ?= $(shell for p in python3 python3.11 python3.13; do \
	$$p -c 'import sys, venv, ensurepip; sys.exit(sys.version_info[:2] not in ((3, 11), (3, 13)))' 2>/dev/null \
	&& echo $$p && exit; done; echo python3)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: demo test lint published clean

demo: $(STAMP)
	rm -rf demo
	$(BIN)/sceneact run SceneAct/Camera-v0 --agent camera-search --case camera-test-0010 --render-size 256 --reference-size 256 --out demo
	$(BIN)/sceneact show demo --picture demo/episode.png
	$(BIN)/sceneact report demo --out demo/report

test: lint
	$(BIN)/python -m pytest -n 2 --dist loadfile

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/mypy

# Published metrics against computed ones; needs SCENEACT_PUBLISHED (see benchmarks/README.md).
published: $(STAMP)
	$(BIN)/python -m benchmarks.published

$(STAMP): setup.cfg pyproject.toml
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || \
		{ echo "$(PYTHON) cannot make virtual environments; on Debian or Ubuntu: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -e '.[blender,dev]'
	@touch $(STAMP)

clean:
	rm -rf $(VENV) demo .pytest_cache .mypy_cache .ruff_cache build *.egg-info
