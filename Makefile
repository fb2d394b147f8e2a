.DEFAULT_GOAL := help
GO    ?= go
BIN   := $(CURDIR)/.tmp/bin
LINT  := $(BIN)/golangci-lint
TAGS  := e2e,nightly
CLIENTS := integration/clients/node_modules/.package-lock.json
AGENTS  := integration/clients/agents/node_modules/.package-lock.json
BROWSER := integration/console/node_modules/.package-lock.json
PAGES   := egress/console/ui/node_modules/.package-lock.json

.PHONY: help
help: ## show this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  %-10s %s\n", $$1, $$2}'

# The version of a release: its tag, or the last tag with the commit after it.
VERSION  ?= $(shell git describe --tags --always --dirty 2>/dev/null)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)
LDFLAGS  := -X weir/cmd/cli.release=$(VERSION) -X weir/cmd/cli.revision=$(REVISION)

.PHONY: build
build: ## build ./weir
	$(GO) build -trimpath -ldflags "$(LDFLAGS)" -o weir ./cmd/weir

PLATFORMS ?= linux/amd64,linux/arm64
IMAGE     ?= weir
.PHONY: image
image: ## build the image for PLATFORMS (default linux/amd64,linux/arm64) as IMAGE; PUSH=1 pushes it
	docker buildx build -f deploy/Dockerfile --platform $(PLATFORMS) --build-arg VERSION=$(VERSION) --build-arg REVISION=$(REVISION) \
		-t $(IMAGE) $(if $(PUSH),--push,--output type=oci,dest=weir-image.tar) .

.PHONY: test
test: ## run the units, and a story for each surface, with the race detector
	@git version 2>/dev/null | awk '{split($$3, v, "."); ok = v[1] > 2 || v[1] == 2 && v[2] >= 31} END {exit !ok}' || { echo "git 2.31 or newer is missing: weir/internal/git, weir/processors/git, weir/egress/git and weir/cmd/app need it; install it with your package manager" >&2; exit 1; }
	@[ "$$(uname)" != Linux ] || for tool in bwrap curl; do command -v $$tool >/dev/null || { [ -z "$$CI" ] || missing=1; \
		echo "SKIPPED: $$tool is missing: TestSandbox… of weir/cmd/cli/runner need it; install it with your package manager (bwrap is in bubblewrap)" >&2; }; done; [ -z "$$missing" ]
	.ci/test test -race -vet=off -parallel 4 -timeout 15m -- ./...

# The programs that the tests run from outside. RACE=-race builds them, and the tests, with
# the race detector.
PROGRAMS := $(CURDIR)/.tmp/e2e$(RACE)
.PHONY: programs
programs: ## build the programs that e2e runs
	$(GO) build $(RACE) -o $(PROGRAMS)/weir ./cmd/weir
	$(GO) build $(RACE) -tags failpoints -o $(PROGRAMS)/weir-failpoints ./cmd/weir
	$(GO) build -o $(PROGRAMS)/nats-server github.com/nats-io/nats-server/v2

.PHONY: e2e
e2e: programs ## test the built program from outside: stories, corpora, clients, crashes, the console
	@$(MAKE) --no-print-directory -k clients agents browser sandbox python || { [ -z "$$CI" ] && echo "SKIPPED: the tests that need what is missing, as said above"; }
	WEIR_BIN=$(PROGRAMS)/weir .ci/test e2e -tags=e2e -vet=off $(RACE) -count=1 -parallel 6 -timeout 30m -- $(addprefix ./integration/,. canary console corpus crash faults nats sim)

.PHONY: nightly
nightly: ## what takes hours: e2e with the race detector, long crashes, disks, power cuts, faults, soak, fuzz, bench
	$(MAKE) e2e RACE=-race
	$(MAKE) rounds crash sim disks powercut faults soak fuzz bench

# A machine that has just started may still install updates: apt-get waits for its lock.
APT = { [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update && \
	apt-get -qq -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $(1); }

# Streams are also read with the client that browsers' programs use.
.PHONY: clients
clients: $(CLIENTS) ## install the npm packages that the tests use

# They are large, 800 MB, and no install script of theirs runs.
.PHONY: agents
agents: $(AGENTS) ## install the coding agents that the tests run

# The console is looked at with the browser that people have.
.PHONY: browser
browser: $(BROWSER) ## install Chromium, and what drives it in tests
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
		$(call APT,chromium fonts-dejavu-core) || \
		{ echo "Chromium is missing: weir/integration/console needs it; install it with your package manager" >&2; exit 1; }

.PHONY: sandbox
sandbox: ## install bubblewrap, for the sandbox of `weir runner`
	@command -v bwrap >/dev/null || [ "$$(uname)" != Linux ] || $(call APT,bubblewrap) || \
		{ echo "bubblewrap is missing: weir/cmd/cli/runner and TestStories/runner need it; install it with your package manager" >&2; exit 1; }

.PHONY: python
python:
	@command -v python3 >/dev/null || { echo "python3 is missing: TestDocs and TestExamples need it; install it with your package manager" >&2; exit 1; }

# npm ci refuses a lock file that does not name a package for each platform, and a registry
# need not have them all: the bundler has a package for each.
NPM_INSTALL := ci
$(PAGES): NPM_INSTALL := install --no-save
$(PAGES): NEEDS_NPM := the pages of the console are built with it
$(CLIENTS): NEEDS_NPM := TestChatClient, TestModelClients and their like, TestEventSource and TestExamples need it
$(AGENTS): NPM_INSTALL := ci --ignore-scripts
$(AGENTS): NEEDS_NPM := TestCodingAgents needs it
$(BROWSER): NEEDS_NPM := weir/integration/console needs it

$(CLIENTS) $(AGENTS) $(BROWSER) $(PAGES): %/node_modules/.package-lock.json: %/package.json %/package-lock.json
	@command -v npm >/dev/null || $(call APT,nodejs npm) || \
		{ echo "npm is missing: $(NEEDS_NPM); install Node.js 20.19 or later, with npm" >&2; exit 1; }
	cd $* && npm $(NPM_INSTALL) --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: console
console: $(PAGES) ## build the console's pages
	cd egress/console/ui && npm run --silent build

.PHONY: site
site: ## write the documentation as a site into DIR
	@[ -n "$(DIR)" ] || { echo "name the directory: make site DIR=PATH" >&2; exit 2; }
	$(GO) run ./docs/site $(DIR)

.PHONY: console-shots
console-shots: browser ## take the pictures of docs/console
	$(GO) test -tags e2e,shots ./integration/console -run TestShots -count 1

.PHONY: demo
demo: ## run the tour
	$(GO) run ./cmd/weir demo

.PHONY: bench
bench: ## run the benchmarks and the end-to-end comparison with the floor
	$(GO) test -tags $(TAGS) -run '^$$' -bench . -benchmem ./...
	$(GO) test -tags nightly ./integration/bench -run TestCompare -count 1 -timeout 2h -v -full -method GET
	$(GO) test -tags nightly ./integration/bench -run 'TestCompare|TestStreams|TestTenants|TestDistance|TestHistory' -count 1 -timeout 2h -v -full -payload 2048

.PHONY: backlog
backlog: ## queue and drain a million actions, with each durability
	$(GO) test -tags nightly ./integration/bench -run TestBacklog -count 1 -timeout 4h -v -full

.PHONY: bench-scale
bench-scale: ## measure the roles over three NATS servers
	$(GO) test -tags nightly ./integration/bench -run 'TestScale$$' -count 1 -timeout 6h -v -full

ROUNDS ?= 10
.PHONY: crash
crash: ## kill the program at every step, ROUNDS times (default 10)
	$(GO) test ./internal/failpoint -tags failpoints -count 1
	$(GO) test -tags e2e ./integration/crash -count 1 -v -timeout 60m -crash.rounds=$(ROUNDS) -crash.streams=250

.PHONY: sim
sim: ## simulate crashes, pauses and lost words for ten minutes
	$(GO) test -tags e2e ./integration/sim -run 'TestSim$$' -sim.time=10m -sim.first=$$(date +%s) -count 1 -timeout 15m -v

.PHONY: powercut
powercut: ## cut the power 60 times under load (as root)
	$(GO) test -tags nightly ./integration/powercut -run TestPowerCut -count 1 -timeout 30m -v -powercut.cuts=60

.PHONY: disks
disks: ## run on disks that are full, slow, broken or damaged (as root)
	$(GO) test -tags nightly ./integration/disk -count 1 -v

FAULTS := $(GO) test -tags nightly ./integration/faults -count 1 -v
OLDER  ?=
.PHONY: faults
faults: ## break a cluster in every known way, change it from OLDER and back if there is one, under load (disks as root)
	$(FAULTS) -run 'TestFaults$$|TestVersions$$|TestClocks$$|TestDisks$$' -timeout 120m -faults.all -faults.older=$(OLDER)

SOAK ?= 1h
.PHONY: soak
soak: ## have faults come at random for SOAK (default 1h)
	$(FAULTS) -run 'TestSoak$$' -timeout 0 -faults.soak=$(SOAK)

$(BIN)/deploycheck: $(wildcard tools/deploycheck/*)
	cd tools/deploycheck && $(GO) build -o $@ .

# promtool is that of the PATH, or else the one in Debian's package prometheus, of which
# nothing is installed; where neither is to be had its files are told to be unchecked.
.PHONY: promtool
promtool:
	@command -v promtool >/dev/null || [ -x $(BIN)/promtool ] || \
		{ [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && mkdir -p .tmp/prometheus $(BIN) && cd .tmp/prometheus && \
		apt-get -qq update && apt-get -qq -o APT::Sandbox::User=root download prometheus && \
		dpkg -x prometheus_*.deb . && cp usr/bin/promtool $(BIN)/; } || echo "promtool is missing" >&2

.PHONY: deploy-check
deploy-check: $(BIN)/deploycheck promtool ## check the files of deploy/ with the libraries and tools that read them
	cd tools/deploycheck && $(GO) test ./...
	PATH="$(BIN):$$PATH" $(BIN)/deploycheck deploy

.PHONY: rounds
rounds: ## run the units with all their random cases, of which make test has a tenth
	WEIR_ROUNDS=all $(GO) test -race -count 1 -timeout 60m $$(git grep -l "table\.Rounds" -- "*_test.go" | xargs -n1 dirname | sort -u | sed "s,^,./,")

FUZZTIME ?= 10s
.PHONY: fuzz
fuzz: ## run each fuzz target for FUZZTIME (default 10s)
	@$(GO) list ./... | while read -r pkg; do \
		for f in $$($(GO) test -list '^Fuzz' $$pkg | grep '^Fuzz' || true); do \
			echo "$$pkg $$f"; $(GO) test -tags $(TAGS) -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 10x $$pkg || exit 1; \
		done; \
	done

.PHONY: generate
generate: ## write the generated files anew
	$(GO) generate ./...

.PHONY: docs
docs: ## write the generated parts of docs anew; make test fails if they are out of date
	$(GO) test ./cmd/app ./internal/telemetry ./internal/completion -run 'TestReference|TestErrorsPage|ThePageListsTheOpenRoutes|DocsList' -update

.PHONY: drift
drift: generate console ## fail if a generated file is out of date
	git diff --exit-code -- schemas egress/console/dist

$(LINT): tools/go.mod tools/go.sum
	cd tools && $(GO) build -o $(LINT) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

.PHONY: lint
lint: $(LINT) ## run the linters
	$(LINT) run --allow-parallel-runners ./...

.PHONY: fmt
fmt: $(LINT) ## format the code
	$(LINT) fmt ./...

.PHONY: tidy
tidy: ## fail if go.mod is not tidy
	$(GO) mod tidy -diff

.PHONY: verify
verify: tidy drift lint deploy-check sandbox test e2e ## everything that CI runs
