PYTHON ?= python3
BIN = .venv/bin
PYTEST_ARGS ?=
PYTEST = $(BIN)/pytest --quiet --numprocesses auto --maxprocesses 4 --dist loadfile
FUZZ_SECONDS ?= 20
SOURCES = $(shell find core-rs/src -name "*.rs")

.PHONY: demo test slow lint neon fuzz miri asan golden screenshots bench nightly pico core matrix lock clean

demo: .venv/app ## install if needed, then run the example; downloads smollm2 (93 MB)
	$(BIN)/zoo-gym demo --yes

test: .venv/ready ## the default suite
	OMP_NUM_THREADS=1 $(PYTEST) $(PYTEST_ARGS)

slow: .venv/ready ## the tests of the Rust core, and those that take minutes
	cargo test --quiet --workspace
	OMP_NUM_THREADS=1 $(PYTEST) --no-loadscope-reorder -m "slow and not nightly" --durations 20 $(PYTEST_ARGS)

nightly: .venv/ready ## more cases of slow tests; measure every causal family, write docs/reference/models.md; compare with the newest TRL
	OMP_NUM_THREADS=1 $(PYTEST) --no-loadscope-reorder -m nightly $(PYTEST_ARGS)
	OMP_NUM_THREADS=1 $(PYTEST) --hypothesis-profile many tests/core tests/gym/delta/codecs tests/gym/experience/library tests/gym/rounds/test_rules.py tests/gym/signing $(PYTEST_ARGS)
	OMP_NUM_THREADS=1 $(BIN)/python -m tests.breadth
	$(BIN)/python -m tests.house.drift

lint: .venv/ready ## format, linters, types, sizes
	cargo fmt --check
	cargo clippy --quiet --workspace --all-targets --features python -- -D warnings
	$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy
	$(BIN)/pyright
	$(BIN)/lint-imports
	$(BIN)/python -m mypy.stubtest zoo.core._core
	$(BIN)/python -m tests.house.sizes

neon: ## the Rust core's tests on 64-bit ARM, emulated; skipped with a message if that is not available
	.ci/neon

golden: .venv/ready ## regenerate golden screens, deltas and aggregates; review the git diff before a commit
	$(BIN)/python -m tests.core.golden.make
	$(BIN)/python -m tests.gym.delta.golden.make
	$(BIN)/pytest --quiet --update-golden tests/gym/tui/test_golden.py

screenshots: .venv/ready ## draw the pictures of the README from a run of zen-pico
	$(BIN)/python docs/screenshots.py

fuzz: ## fuzz the readers, FUZZ_SECONDS each; needs a C++ compiler
	core-rs/fuzz/run $(FUZZ_SECONDS)

miri: ## the core's unsafe blocks on the scalar paths, interpreted: needs nightly with miri
	MIRIFLAGS="-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-ignore-leaks" PROPTEST_CASES=2 RAYON_NUM_THREADS=2 cargo +nightly miri test --package zoo-gym-core --lib -- codes::tests signs::tests

asan: ## all tests of the core under AddressSanitizer, with every instruction set of this machine
	RUSTFLAGS=-Zsanitizer=address cargo +nightly test --package zoo-gym-core --lib --target $$(rustc -vV | sed -n 's/^host: //p') --target-dir target/asan

bench: .venv/ready ## benchmarks against plain alternatives; writes bench/results
	$(BIN)/python -m bench

pico: .venv/ready ## retrain zen-pico: five to six minutes on one core
	cd models && OMP_NUM_THREADS=1 ../$(BIN)/python -m pico.train

core: .venv/ready ## rebuild the Rust core after an edit

INPUTS = pyproject.toml constraints.txt Cargo.toml Cargo.lock core-rs/Cargo.toml core-rs/hatch_build.py $(SOURCES)
INSTALL = VIRTUAL_ENV=.venv $(BIN)/uv pip install --quiet --constraints constraints.txt --editable
ON_MAC = $(filter Darwin,$(shell uname -s))

.venv/app: $(INPUTS) | $(BIN)/uv # the program alone, which is what the demo waits for
	$(INSTALL) '.$(and $(ON_MAC),[mlx])'
	touch $@

.venv/ready: $(INPUTS) | $(BIN)/uv # and all that tests and linters need
	$(INSTALL) '.[mlx]' --group dev
	touch .venv/app $@

$(BIN)/uv:
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet uv

matrix: .venv/ready ## test every way of installing with every Python found, including the demo
	$(BIN)/python -m tests.house.matrix

lock: .venv/ready ## resolve all dependencies again, for every system and Python
	$(BIN)/uv pip compile --quiet --universal --all-extras --group dev --upgrade --custom-compile-command "make lock" --output-file constraints.txt pyproject.toml

clean: ## remove build outputs
	rm -rf .venv target dist core-rs/python/zoo/core/_core*.so core-rs/python/zoo/core/_core*.pyd
