.DEFAULT_GOAL := help
GO    ?= go
BIN   := $(CURDIR)/.tmp/bin
LINT  := $(BIN)/golangci-lint
TEST  := $(GO) test -race -shuffle=on -timeout 15m
CLIENTS := integration/clients/node_modules/.package-lock.json

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

.PHONY: build
build: ## build ./weir
	$(GO) build -trimpath -o weir ./cmd/weir

.PHONY: test
test: $(CLIENTS) ## run every test with the race detector
	$(TEST) ./...

.PHONY: short
short: $(CLIENTS) ## run the quick tests
	$(GO) test -short ./...

# Streams are also read with the client that browsers' programs use.
.PHONY: clients
clients: $(CLIENTS) ## install the npm packages that the tests use

$(CLIENTS): integration/clients/package.json integration/clients/package-lock.json
	@command -v npm >/dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && \
		apt-get -qq update && apt-get -qq install -y --no-install-recommends nodejs npm; } || \
		{ echo "npm is missing: one test reads streams with an npm package; install Node.js 20 or later, with npm" >&2; exit 1; }
	cd integration/clients && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: demo
demo: ## run the tour
	$(GO) run ./cmd/weir demo

.PHONY: bench
bench: ## run the benchmarks and the end-to-end comparison with the floor
	$(GO) test -run '^$$' -bench . -benchmem ./...
	$(GO) test ./integration/bench -run 'TestCompare|TestStart' -count 1 -timeout 2h -v -full

.PHONY: backlog
backlog: ## queue and drain a million actions, with each durability
	$(GO) test ./integration/bench -run TestBacklog -count 1 -timeout 4h -v -full

ROUNDS ?= 10
.PHONY: crash
crash: ## kill the program at every step, ROUNDS times (default 10)
	$(GO) test ./internal/failpoint -tags failpoints -count 1
	$(GO) test ./integration/crash -count 1 -v -timeout 60m -crash.rounds=$(ROUNDS) -crash.streams=250

.PHONY: sim
sim: ## simulate crashes, pauses and lost words for ten minutes
	$(GO) test ./integration/sim -run 'TestSim$$' -sim.time=10m -sim.first=$$(date +%s) -count 1 -timeout 15m -v

.PHONY: powercut
powercut: ## cut the power 60 times under load (as root)
	$(GO) test ./integration/powercut -run 'TestPowerCut|TestSnapshot' -count 1 -timeout 30m -v -powercut.cuts=60

FAULTS := $(GO) test ./integration/faults -count 1 -v
.PHONY: faults
faults: ## break a cluster of three servers in every known way, under load (disks as root)
	$(FAULTS) -run 'TestFaults$$|TestDisks$$' -timeout 120m -faults.all

SOAK ?= 1h
.PHONY: soak
soak: ## have faults come at random for SOAK (default 1h)
	$(FAULTS) -run 'TestSoak$$' -timeout 0 -faults.soak=$(SOAK)

$(BIN)/deploycheck: $(wildcard tools/deploycheck/*)
	cd tools/deploycheck && $(GO) build -o $@ .

# promtool is that of the PATH, such as the one in Debian's package prometheus; without
# one its files are told to be unchecked.
.PHONY: deploy-check
deploy-check: $(BIN)/deploycheck ## check the files of deploy/ with the libraries that read them
	cd tools/deploycheck && $(GO) test ./...
	$(BIN)/deploycheck deploy

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 10s)
	@$(GO) list ./... | while read -r pkg; do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
		done; \
	done

.PHONY: generate
generate: ## write the generated files anew
	$(GO) generate ./...

.PHONY: drift
drift: generate ## fail if a generated file is out of date
	git diff --exit-code -- schemas

$(LINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(LINT) ## run the linters
	$(LINT) run ./...

.PHONY: fmt
fmt: $(LINT) ## format the code
	$(LINT) fmt ./...

.PHONY: tidy
tidy: ## fail if go.mod is not tidy
	$(GO) mod tidy -diff

.PHONY: verify
verify: tidy drift lint test ## everything that CI runs
