# Every target sets up what it needs. `make help` lists them.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check fix lint lint-changed style format imports types types-changed tidy tidy-changed units sim proof mutants bench benches nightly lock clean distclean

# Containers often set it; each of the hundreds of processes of a run would then compile every module again.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
SEED ?= 1
EVENTS ?= 400000
PROGRAMS ?= 2000
NIGHT_SEEDS ?= 100000
UPGRADE ?=
# Which benchmarks, and how large: make bench BENCHES='scale ramp' OPTIONS_scale='--sizes 10:50'
BENCH_SCRIPTS := $(patsubst deploy/bench/%.py,%,$(wildcard deploy/bench/[!_]*.py deploy/bench/*/[!_]*.py))
BENCHES ?= $(sort $(filter-out ordinary/%,$(BENCH_SCRIPTS))) side-by-side ordinary
BENCH_EVENTS ?= 4000000
OPTIONS_flatness ?= --events 100000000
OPTIONS_ramp ?= --events 16000000
OPTIONS_scale ?= --sizes 10:50,50:50,100:100,1000:1000 --seconds 6
OPTIONS_stages ?= --events $(BENCH_EVENTS)
OPTIONS_side-by-side ?= --engines holon,flink --queries q0,q1,q2,q4,q5,q7,q7max,q8 --events $(BENCH_EVENTS)
LINTED := wcrdt holon transactional nodes nexmark deploy examples tests
say = @printf '%s: this takes about %s\n' '$@' $(1)

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 20

setup: ## make .venv from requirements.lock, with the command holon in it (60 s; nothing the second time)
	@PYTHON='$(PYTHON)' bash deploy/setup.sh

demo: setup ## kill a node in the middle of two queries, compare the answers with Spark's
	$(call say,'90 s')
	$(BIN)/holon nexmark run q7 --events $(EVENTS) --nodes 3 --kill 1@0.5 --validate auto
	$(BIN)/holon nexmark run query1 --events $(EVENTS) --nodes 3 --kill 1@0.5 --validate auto

test: setup ## everything that CI runs: lint, tests, simulation, faults, mutants, with the time of each
	$(call say,'25 minutes')
	$(BIN)/python deploy/parts.py

check: setup ## before a commit: lint of what has changed, and the quick unit tests, beside each other
	$(call say,'a minute; three where many types hang on what has changed')
	@$(MAKE) --no-print-directory -k -j3 lint-changed units

fix: setup ## format the code, and correct what ruff can correct safely
	$(BIN)/ruff check --fix-only --quiet $(LINTED)
	$(BIN)/ruff format $(LINTED)

lint: style format imports types tidy ## style, format, import direction, types, house rules (35 s); make -k lint shows all that fails

# In a new clone pyright takes a core for all of the time; what runs beside it shares the other one.
lint-changed: types-changed style format imports tidy-changed

style: setup
	$(BIN)/ruff check $(LINTED)

format: setup
	$(BIN)/ruff format --check $(LINTED)

imports: setup
	$(BIN)/lint-imports --no-logo

# Types live long. In V8's usual 16 MB for new objects they are copied several times: a tenth of pyright's CPU.
types types-changed: export NODE_OPTIONS := $(NODE_OPTIONS) --max-semi-space-size=256

types: setup
	$(BIN)/pyright

types-changed: setup
	$(BIN)/python -m tests.tidy.types

tidy: setup
	$(BIN)/python -m tests.tidy

tidy-changed: setup
	$(BIN)/python -m tests.tidy --changed

units: setup
	nice -n 3 $(BIN)/python -m pytest -q -p tests.forks --forks 2 -m 'not slow' tests/unit

sim: setup ## simulate a fleet with faults from one seed: make sim SEED=7
	$(call say,'5 s')
	$(BIN)/holon sim --seed $(SEED)

proof: setup ## judge random transactional programs under crashes by a plain loop: make proof PROGRAMS=5000
	$(call say,'a minute for 1000 programs')
	$(BIN)/python -m tests.sim.replay_proof --programs $(PROGRAMS)

mutants: setup ## plant all known bugs in a copy of the tree, one at a time; the tests have to find each
	$(call say,'5 minutes')
	$(BIN)/python -m deploy.mutants

bench: setup ## measure all that the pages tell: BENCHES='name ...', OPTIONS_name='...' (make benches lists them)
	$(call say,'an hour and a half')
	@set -e; $(foreach name,$(BENCHES),echo '== $(name) $(OPTIONS_$(name))'; $(call bench-$(filter side-by-side ordinary,$(name)),$(name));)

bench- = $(BIN)/python deploy/bench/$(1).py $(OPTIONS_$(1))
bench-side-by-side = $(BIN)/holon nexmark bench $(OPTIONS_$(1)) --out runs/bench
bench-ordinary = $(BIN)/holon bench deploy.bench.ordinary --engines holon,flink,bytewax,quix $(OPTIONS_$(1))

benches: ## list the benchmarks, what each measures, and its options
	@$(foreach name,$(BENCHES),printf '%-26s %s\n' '$(name)' "$$(sed -n '1s/^"""//p' deploy/bench/$(name).py 2>/dev/null || \
		echo 'engines side by side ($(if $(filter ordinary,$(name)),holon bench,holon nexmark bench))')"; printf '%26s   %s\n' '' '$(OPTIONS_$(name))';)

nightly: setup ## all of it, with the nightly tests, far more examples and 100,000 simulated seeds (ONLY=formats: that part)
	$(call say,'6 hours')
	$(BIN)/python deploy/parts.py --nightly --keep-going --seeds $(NIGHT_SEEDS) $(foreach part,$(ONLY),--only $(part))

lock: ## regenerate requirements.lock (UPGRADE=--upgrade takes the newest versions)
	@PYTHON='$(PYTHON)' bash deploy/lock.sh $(UPGRADE)

clean: ## remove caches, builds and runs
	rm -rf build dist runs .pytest_cache .ruff_cache .hypothesis .import_linter_cache .cache spark-warehouse metastore_db
	rm -f derby.log
	find . -name .venv -prune -o -name __pycache__ -type d -prune -exec rm -rf {} +

distclean: clean ## clean, and remove .venv
	rm -rf .venv
