# Targets of this repository. `make help` lists them.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

GO      ?= go
TOOL    := $(GO) tool -modfile=deploy/tools/go.mod
BIN     := $(CURDIR)/bin
RUN_DIR ?= $(CURDIR)/.run
# Packages of every target; `make test PKG=./shared/...` narrows it.
PKG     ?= ./...
# Empty, or -race.
RACE    ?=
# Packages that start real processes have a target of their own.
UNIT     = $$($(GO) list $(PKG) | grep -v '/e2e\(/\|$$\)')

.PHONY: help
help: ## List the targets
	@awk 'BEGIN {FS = ":.*## "} /^[a-z0-9-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: deps
deps: ## Install what the tests and the demo need (Debian packages; only what is missing)
	@deploy/deps install
	@$(GO) mod download

.PHONY: build
build: ## Build forgeyard, forgeyard-authority and forgeyard-sidecar into bin/
	@mkdir -p $(BIN)
	$(GO) build -trimpath -o $(BIN)/ ./authority/cmd/forgeyard-authority ./sidecar/cmd/forgeyard-sidecar ./sidecar/cmd/forgeyard

.PHONY: $(BIN)/demo
$(BIN)/demo:
	@$(GO) build -trimpath -o $@ ./e2e/demo

.PHONY: demo
demo: build $(BIN)/demo ## Tell the main job end to end on the embedded store, in under a minute
	@$(BIN)/demo -bin $(BIN)

.PHONY: up
up: build $(BIN)/demo ## Leave a stack of authority and two sidecars running; prints the addresses
	@$(BIN)/demo -bin $(BIN) -dir $(RUN_DIR) up

.PHONY: down
down: $(BIN)/demo ## End the stack of `make up` and remove its files
	@$(BIN)/demo -dir $(RUN_DIR) down

.PHONY: test
test: ## Run every test but e2e, against real Postgres too (RACE=-race, PKG=./...)
	@deploy/deps check postgres
	$(GO) test $(RACE) -count=1 $(UNIT)
	@$(MAKE) --no-print-directory model

.PHONY: model
model: ## The exhaustive search over the pure machines, with its bounds; every guard taken out once
	$(GO) test -count=1 -v ./e2e/model | grep -E 'states|^(ok|FAIL|panic)|--- FAIL'
	$(GO) test -count=1 -v ./e2e/mutants | grep -E 'without|mutants,|^(ok|FAIL|panic)|--- FAIL|survived'

.PHONY: lint
lint: ## gofmt, go vet, staticcheck, the import rules, buf lint
	@out=$$(gofmt -l $$(git ls-files '*.go' ':!:*.pb.go' ':!:*.pb.gw.go')); if [ -n "$$out" ]; then echo "gofmt wants to change:"; echo "$$out"; exit 1; fi
	$(GO) vet ./...
	$(TOOL) staticcheck ./...
	$(GO) test -count=1 ./shared/archtest
	cd proto && $(GO) tool -modfile=../deploy/tools/go.mod buf lint

.PHONY: generate
generate: ## Regenerate code from proto/
	cd proto && $(GO) tool -modfile=../deploy/tools/go.mod buf generate

.PHONY: verify
verify: generate ## Regenerate, then fail when the tree differs or go.mod is untidy
	git diff --exit-code -- proto
	@new=$$(git ls-files --others --exclude-standard -- proto); if [ -n "$$new" ]; then echo "generated, but not committed: $$new"; exit 1; fi
	$(GO) mod tidy -diff
	cd deploy/tools && $(GO) mod tidy -diff
	$(GO) mod verify

.PHONY: e2e
e2e: build $(BIN)/demo ## Tests on real processes (LONG=1: the long forms)
	@deploy/deps check postgres
	FORGEYARD_BIN=$(BIN) LONG=$(LONG) $(GO) test $(if $(LONG),-v) -count=1 -p 1 -timeout 60m $$($(GO) list ./e2e/... | grep -v "/e2e/\(model\|mutants\)$$")

.PHONY: chaos
chaos: build ## The torture suite: one seeded run (SEED=1 FOR=60s; FOR=10m is the long form)
	@deploy/deps check postgres
	@deploy/deps check e2e
	FORGEYARD_BIN=$(BIN) SEED=$(or $(SEED),1) FOR=$(or $(FOR),60s) $(GO) test -count=1 -v -timeout 60m -run TestTorture ./e2e/chaos

.PHONY: bench
bench: ## Gate admission, journal group commit, engine at 1, 16 and 128 callers on both stores
	@deploy/deps check postgres
	$(GO) test -run '^$$' -bench . -benchmem ./sidecar/gate ./sidecar/journal ./authority/engine

.PHONY: clean
clean: ## Remove what was built
	rm -rf $(BIN)
