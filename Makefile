# Two commands on a fresh Debian 12 with git and make: `make run` and `make test`. `make help` lists the rest.

PRESETS := release debug tsan
JOBS ?= $(shell nproc)
MINUTES ?= 10
ROUNDS ?= 200
KILLS ?= 7
PREFIX ?= /usr/local
WEFT := build/release/weft

RECENT ?= 40
SOURCES = $(shell find src include tests examples -name '*.h' -o -name '*.cc')

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: run package test soak models bench profile instructions record-instructions campaign kill-campaign bench-fabrics bench-redis bench-rows bench-failover bench-links bench-hostile bench-idle format check-format check-tree tidy tidy-recent install clean help packages build $(PRESETS:%=test-%)

run: build ## Install what is missing, build, start a local cluster and say how to talk to it
	$(WEFT) up

package: build ## Build a Debian package of the command: build/release/package/weft_VERSION_ARCH.deb
	scripts/package.sh $(CURDIR) $(CURDIR)/build/release

# Cheap failures first: format and tree in seconds, then the builds with their tests, clang-tidy last.
test: packages check-format check-tree models test-release instructions test-debug test-tsan tidy-recent ## Install what is missing, build all presets, run the tests and checks of the gate
	@scripts/test-report.py $(PRESETS:%=build/%)

# What is too long for the gate: every file by itself, all of clang-tidy, fresh seeds, rounds, virtual machines, browser.
soak: packages ## Run what `make test` leaves out: MINUTES (10) of fresh seeds, ROUNDS (200) of faults, long tests, all of clang-tidy
	cmake --preset release
	cmake --build --preset release -j $(JOBS)
	ctest --preset soak --output-junit soak.xml
	$(WEFT) sim --minutes $(MINUTES) --protocol all --from $$(date +%s)000
	$(WEFT) sim --planted --from $$(date +%s)000 --seeds 1000
	$(MAKE) --no-print-directory kill-campaign ROUNDS=$(ROUNDS)
	models/run
	cmake --preset release -B build/apart -DWEFT_JOIN=OFF
	cmake --build build/apart -j $(JOBS)
	$(MAKE) --no-print-directory tidy

packages:
	@scripts/install-packages.sh

build: packages
	@cmake --preset release
	@cmake --build --preset release --target weft_cli -j $(JOBS)

check-format:
	clang-format-16 --dry-run -Werror $(SOURCES)

check-tree:
	python3 tests/layering_test.py
	python3 tests/grep_test.py

models: packages ## Check the models of commit and recovery with SPIN, if they have changed (models/run --large for more, by hand)
	models/run --changed

$(PRESETS:%=test-%): test-%: packages ## (test-release, test-debug, test-tsan) One preset: build it and run its tests
	cmake --preset $*
	cmake --build --preset $* -j $(JOBS)
	rm -rf build/$*/reports
	ctest --preset $* -j $(JOBS) --output-junit tests.xml

tidy: packages ## Run clang-tidy over the sources (FILES=... for some of them)
	@cmake --preset release -B build/tidy -DWEFT_JOIN=OFF >/dev/null  # every file has a command of its own there
	@scripts/tidy.py --commands build/tidy --jobs $(JOBS) $(TIDY_FLAGS) $(FILES)

# What `make test` looks at, without the analyzer: all of it would take as long as all the rest.
tidy-recent: packages ## Run most of clang-tidy over the RECENT (40) sources that were changed last
	@$(MAKE) --no-print-directory tidy TIDY_FLAGS='--recent $(RECENT) --checks=-clang-analyzer-*'

bench: packages ## Measure the machine, the tables, the protocols and the ladder of batching
	@cmake --preset release
	@cmake --build --preset release -j $(JOBS)
	scripts/bench.sh build/release $(WEFT)

profile: build ## Count where a transaction's instructions go, with callgrind
	scripts/profile.py $(WEFT) smallbank tatp

# A figure, no verdict: what a transaction costs beside what the last commit that changed it has recorded.
instructions: ## (in `make test`, after the release build) Print instructions a transaction beside those recorded last
	@scripts/profile.py --line $(WEFT) smallbank tatp

record-instructions: build ## Record them, with the commit that changes them
	@scripts/profile.py --record $(WEFT) smallbank tatp

campaign: build ## Simulate seeds for MINUTES (10) with every protocol, and with those that fit together
	$(WEFT) sim --minutes $(MINUTES) --protocol all

kill-campaign: build ## Kill, stop and cut off processes of a cluster under load: ROUNDS (200) over shm, as many over tcp
	python3 tests/process_rounds.py --weft $(WEFT) --fabric shm --rounds $(ROUNDS)
	python3 tests/process_rounds.py --weft $(WEFT) --fabric tcp --rounds $(ROUNDS)

bench-fabrics: build ## Measure what TCP and TLS cost, against shared memory and one process
	python3 scripts/fabrics.py --weft $(WEFT)

bench-redis: packages ## Measure Weft beside redis-server, with the same client
	@cmake --preset release
	@cmake --build --preset release --target weft_cli redis_load redis_ok -j $(JOBS)
	python3 scripts/redis_compare.py --weft $(WEFT) --load build/release/redis_load

bench-rows: packages ## Measure rows of the protocol table beside each other over the Redis protocol, with 3, 5 and 7 nodes
	@cmake --preset release
	@cmake --build --preset release --target weft_cli redis_load -j $(JOBS)
	python3 scripts/rows_bench.py --weft $(WEFT) --load build/release/redis_load

bench-failover: build ## Kill nodes and measure how long that stops the others: KILLS (7) for every row of the protocol table
	python3 scripts/failover_rows.py --weft $(WEFT) --kills $(KILLS)

bench-links: build ## Measure what a node that cannot be reached and a link that is down cost the others
	python3 scripts/links_bench.py --weft $(WEFT)

bench-hostile: build ## Measure what a hostile client costs the others, beside redis-server
	python3 scripts/hostile.py --weft $(WEFT)

bench-idle: build ## Measure what a cluster takes that nobody uses
	python3 scripts/idle.py --weft $(WEFT)

format: packages ## Format the sources
	clang-format-16 -i $(SOURCES)

install: packages ## Install the library and the command under PREFIX (/usr/local)
	@cmake --preset release
	@cmake --build --preset release --target weft weft_cli -j $(JOBS)
	cmake --install build/release --prefix $(PREFIX)

clean: ## Remove what was built
	rm -rf build

help: ## List the targets
	@sed -n 's/^\([$$a-z][^:]*\):.*## \(.*\)/\1|\2/p' Makefile | sed 's/^\$$[^|]*|(\([^)]*\)) /\1|/' | \
	  while IFS='|' read -r target text; do printf '  %-38s %s\n' "$$target" "$$text"; done
