# Antiphon. `make help` lists the targets.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

BIN := .venv/bin
# Worker processes of the test run; JOBS=0 runs everything in one process.
JOBS ?= 2
# Passed on: make serve ARGS="--http-port 8123", make test PYTEST_ARGS="-k hermes", make bench ARGS="...".
ARGS ?=
FUZZ_SECONDS ?= 600
PYTEST_ARGS ?=
export PYTHON

.PHONY: help install serve test test-vllm lint fmt lock agents agents-long agents-cut agents-setup check check-peer bench launch-check codex-profiles docs golden replay replay-all soak-prompt bench-parsers bench-prefix bench-embedded bench-speculation bench-router bench-router-cpu bench-frontend-peer faults bench-dispatch bench-prompt bench-kv-events fuzz mutate forced-calls clean

help: ## this list
	@echo "usage: make TARGET"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: ## make or update .venv: Antiphon, its pinned packages, the default model, the test tools
	@scripts/install.sh all

serve: ## install what serving needs and serve on 127.0.0.1:8000 (ARGS="--http-port 8123")
	@scripts/install.sh serve
	@exec $(BIN)/antiphon serve $(ARGS)

test: ## the whole test suite (PYTEST_ARGS="-k hermes", JOBS=0 for one process)
	@scripts/install.sh all
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(PYTEST_ARGS)

test-vllm: ## a real vLLM on this CPU behind a real frontend: text, calls, cache, events, priority (brings vLLM once, 3.6 GB; PYTEST_ARGS)
	@scripts/install.sh all
	@scripts/test_vllm.sh $(PYTEST_ARGS)

lint: ## ruff, types, import law, house rules
	@scripts/install.sh all
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports --no-logo
	@$(BIN)/python scripts/check_tree.py

fmt: ## format the code and sort the imports
	@scripts/install.sh all
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

lock: ## write requirements/ from what is installed in .venv
	@scripts/install.sh all
	@$(BIN)/python scripts/lock.py

agents: ## real agent clients against the mock engine (CLIENTS="claude pi", SCRIPTS="agent_session", DISPATCH="off"; needs root)
	@scripts/install.sh serve
	@scripts/agents.sh
	@scripts/agents_long.sh
	@MODES="$${MODES:-honest recover}" CUTS="$${CUTS:-value}" scripts/agents_cut.sh

agents-long: ## the longer session alone: markup in edits, a failed call, a compaction (CLIENTS="claude codex openclaw")
	@scripts/install.sh serve
	@scripts/agents_long.sh

agents-cut: ## every way a tool call can be cut, with every client; over an hour (MODES="honest", CUTS="value", CLIENTS as above)
	@scripts/install.sh serve
	@scripts/agents_cut.sh

agents-setup: ## install the pinned agent clients (npm and PyPI, about 2 GB for all)
	@scripts/agents_setup.sh

check: ## hold our own server to what agent clients need (ARGS="--only M"; docs/conformance.md)
	@scripts/install.sh serve
	@$(BIN)/antiphon check --self $(ARGS)

check-peer: ## the same beside the peer; writes the table into docs/conformance.md (needs root and the peer)
	@scripts/install.sh serve
	@scripts/check_peer.sh

bench: ## parser and frontend figures (bench/README.md says what they mean)
	@scripts/install.sh all
	@$(BIN)/python -m bench.run $(ARGS)

launch-check: ## `antiphon launch` with the real clients (CLIENTS="claude codex opencode openclaw pi", WIRES="messages chat"; needs root)
	@scripts/install.sh serve
	@scripts/launch_check.sh

codex-profiles: ## what Codex does with a minimal and a full catalog entry: the table of docs/clients/codex.md (needs root)
	@scripts/install.sh serve
	@scripts/codex_profiles.sh

docs: ## write the generated pages of docs/
	@scripts/install.sh all
	@$(BIN)/python scripts/field_table.py
	@$(BIN)/python scripts/support_table.py
	@$(BIN)/python scripts/explain_table.py
	@$(BIN)/python scripts/metrics_table.py
	@$(BIN)/python scripts/config_table.py

golden: ## write the golden prompts of every family anew (packages/antiphon/tests/golden_prompts); the diff is for review
	@scripts/install.sh all
	@$(BIN)/python -m packages.antiphon.tests.prompt_sessions

replay: ## real agent clients against the mock engine: tokens lost per turn and client (CLIENTS, SCRIPTS as for agents; needs root)
	@scripts/install.sh all
	@scripts/replay.sh

replay-all: ## exact replay of every must family: 30 sessions a client, restarts, other tenants, the long session; about 30 minutes on one core
	@scripts/install.sh all
	@REPLAY_SESSIONS=30 $(BIN)/python -m pytest -n $(JOBS) --timeout 1800 -rP \
		packages/antiphon/tests/test_replay_sessions.py tests/long/test_long_session.py $(PYTEST_ARGS)

soak-prompt: ## memory over 10,000 sessions of 20 turns: growth per 10,000 requests (ARGS="--sessions 2000"); about 20 minutes
	@scripts/install.sh all
	@$(BIN)/python -m packages.antiphon.tests.soak_prompt $(ARGS)

bench-parsers: ## parser CPU of every must family next to two other servers' parsers (downloads them once, about 400 MB)
	@scripts/install.sh all
	@$(BIN)/python -m bench.parsers_peers $$(scripts/peer_parsers.sh) $(ARGS)

bench-dispatch: ## when blocks and calls leave after their closing tokens, beside the peer (ANTIPHON_SHARED; status 1 if a call misses 20 ms)
	@scripts/install.sh all
	@scripts/bench_peer.sh dispatch $(ARGS)

bench-prompt: ## what a 52K-token prompt costs before its first token: cold, again, grown, beside the peer (ANTIPHON_SHARED)
	@scripts/install.sh all
	@scripts/bench_peer.sh prompt $(ARGS)

bench-prefix: ## what a varying first line costs, on the simulated engine (52K tokens) and the embedded one (1K); an edited turn
	@scripts/install.sh all
	@$(BIN)/python -m bench.prefix $(ARGS)

bench-embedded: ## slots and slices of the embedded engine: two sessions on one 4K prefix, short prompts beside a long one (status 1 if not as it must be)
	@scripts/install.sh all
	@$(BIN)/python -m bench.embedded $(ARGS)

bench-router: ## routing by cache and priority on simulated workers, what a decision costs, how that grows; status 1 if a must-hold is missed
	@scripts/install.sh all
	@$(BIN)/python -m bench.router_fleet $(ARGS)

bench-frontend-peer: ## tokens per CPU-second of the frontend before one mock worker, beside the peer (ANTIPHON_SHARED)
	@scripts/install.sh all
	@scripts/bench_peer.sh frontend $(ARGS)

bench-router-cpu: ## what one routing decision costs: 52K tokens, block 16, 8 to 1,024 workers
	@scripts/install.sh all
	@$(BIN)/python -m bench.router_cpu $(ARGS)

bench-kv-events: ## 64 streams while 300,000 blocks/s of KV events are published, with and without an index that follows; its rebuild
	@scripts/install.sh all
	@$(BIN)/python -m bench.kv_events $(ARGS)

bench-speculation: ## the next turn's first token with and without speculative prefill, on the simulated engine (52K tokens)
	@scripts/install.sh all
	@$(BIN)/python -m bench.speculation $(ARGS)

faults: ## workers that die, hang, cut and lie: kill -9 in 200 consecutive streams, and the same in simulated time
	@scripts/install.sh all
	@ANTIPHON_KILLS=200 $(BIN)/python -m pytest -n 0 -rP --show-capture=stdout packages/antiphon/tests/test_worker_kills.py packages/antiphon/tests/test_fleet.py $(PYTEST_ARGS)

fuzz: ## coverage-guided fuzzing of the parsers (FUZZ_SECONDS=600 by default)
	@scripts/install.sh all
	@$(BIN)/python scripts/fuzz_parsers.py --seconds $(FUZZ_SECONDS) $(ARGS)

mutate: ## every client-shaped body with one thing wrong at every depth, and many requests drawn from the OpenAPI document; make test sends a sample
	@scripts/install.sh all
	@ANTIPHON_MUTATE=all $(BIN)/python -m pytest packages/antiphon/tests/test_mutated_bodies.py packages/antiphon/tests/test_openapi_requests.py $(PYTEST_ARGS)

forced-calls: ## 50 forced tool calls on the default model, and one in every family's format: all must fit their schema
	@scripts/install.sh all
	@$(BIN)/python scripts/forced_calls.py $(ARGS)
	@$(BIN)/python -m pytest tests/long/test_forced_formats.py

clean: ## remove the environment and every cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find packages bench scripts tests -name __pycache__ -prune -exec rm -rf {} + -o -name '*.egg-info' -prune -exec rm -rf {} + 2>/dev/null || true
