# bornode: one target per job. `make help` lists them.
SHELL := /bin/bash
GO ?= go
NICE := $(shell command -v nice 2>/dev/null)
# ./sim is not among them: each of its worlds is one goroutine, and what it drives is in ./consensus/dpos.
RACE := ./block ./consensus/... ./transport/... ./sync ./pubsub/...
BUILDFLAGS ?= -trimpath
# Programs that are built for tests share what is compiled for the tests.
test test-all storms: export BUILDFLAGS :=
# Of the networks of processes: what `make test` starts.
FIRST := ^Test(BadConfiguration|BindingIsGenerated|FAQQuotesTheSource|EveryShellBlockIsRun|OneProducerKilled|EthereumClients|TopicClients|TopicClientCommands|Guides)$$
SEED ?= 1

.PHONY: help build deps check test test-all storms race fuzz sim testnet testnet-down bench contracts docs lint cgo-less rdma-lab

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | expand -t 16

build: ## build the programs into build/bin
	$(GO) build $(BUILDFLAGS) -o build/bin/ ./cmd/...

deps: ## install what the tests need (Node.js clients; says what it does)
	scripts/deps.sh

lint: ## format, tidy modules, vet, staticcheck
	@out=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$out" ]; then echo "not gofmt'ed: $$out"; exit 1; fi
	@$(GO) mod tidy -diff || { echo "go.mod or go.sum is not tidy: run go mod tidy, and commit what it changes"; exit 1; }
	$(GO) vet ./...
	$(GO) tool staticcheck ./...

check: lint ## format, tidy modules, vet, staticcheck, short unit tests (under 3 min warm)
	$(GO) test -short ./...

test: lint deps build ## unit and conformance tests, race on the pure cores, first networks and clients (under 15 min warm)
	$(GO) test -timeout 15m $$($(GO) list ./... | grep -v '/testnet$$')
	$(GO) test -timeout 15m -run '$(FIRST)' ./testnet
	$(GO) test -race -short -timeout 15m ./consensus/dpos ./block ./transport/link

test-all: lint deps build ## everything: long simulation, crash storms, all clients (about an hour from cold on two cores; the networks of processes mostly wait and run beside the other packages)
	contracts/build.sh --check
	BORNODE_LONG=1 $(GO) test -vet=off -p 3 -timeout 80m ./testnet $$($(GO) list ./... | grep -v '/testnet$$')
	$(MAKE) race cgo-less rdma-lab

storms: deps build ## the long form of storms: five clients try for 15 minutes what they may not; a broker's disk fills eight times; files of a node are damaged 300 times; 200 power cuts; 200 read errors at starts; imports killed twice at each fail point; 60 seeds of whole nodes on failing disks; 100 restores of older copies, 20 without a peer, 50 copies beside the original, 30 kills of all producers; more seeds of the block store's, the chain's, the machine's and the replicas' crashes, and of simulated consensus
	BORNODE_STORMS=1 $(GO) test -timeout 110m -count=1 -run '^Test(RevokedClients|ALeaderWithAFullDiskHandsOver|PowerCuts|DamageTrials|ReadErrorAtAStart|PruningUnderLoadWithJoiners|ImportKilledAtFailpoints)$$' ./testnet
	BORNODE_STORMS=1 $(GO) test -timeout 110m -count=1 -run '^Test(ProducersAreRestoredFromOlderCopies|ARestoredProducerAloneCastsNoVote|CopiesAreStartedBesideTheOriginal|AllProducersAreKilledAtOnce)$$' ./testnet
	BORNODE_STORMS=1 BORNODE_LONG=1 $(GO) test -timeout 110m -count=1 ./blockstore ./chain ./consensus/dpos ./pubsub/replica ./sim
	BORNODE_STORMS=1 $(GO) test -timeout 60m -count=1 -run '^TestSeeds$$' ./sim/nodes

race: ## the race detector over the concurrent parts (short forms)
	$(GO) test -race -vet=off -short -timeout 40m $(RACE)

cgo-less: ## build and test what has a form without cgo
	CGO_ENABLED=0 $(GO) build -o /dev/null ./cmd/bornode
	CGO_ENABLED=0 $(GO) test ./internal/bls ./transport/rdma/verbs

rdma-lab: ## real verbs over software RoCE in an emulated machine (installs qemu; says SKIP where it cannot)
	scripts/rdma-lab.sh

fuzz: ## run every fuzz target for FUZZTIME each (default 20s)
	scripts/fuzz.sh $(or $(FUZZTIME),20s)

sim: ## simulate consensus; SEED=n replays one seed exactly
	$(GO) run ./cmd/bornode sim --seed $(SEED) $(SIM_FLAGS)

testnet: build ## start 4 producers and 1 observer in .testnet, or go on with the network there
	scripts/testnet.sh up

testnet-down: ## stop the network in .testnet and delete it
	scripts/testnet.sh down

bench: build ## imports, a network, transports, a joining node; prints tables, JSON and charts in build/
	build/bin/bornode bench all --json build/bench.json
	build/bin/bornode bench transport --json build/bench-transport.json --svg build/bench-transport.svg
	build/bin/bornode bench sync --dir build/bench --json build/bench-sync.json --svg build/bench-sync.svg

contracts: ## compile the system contracts again (needs npm)
	contracts/build.sh

docs: ## write generated documents again (metrics, configuration, JSON-RPC, borcli)
	BORNODE_UPDATE=1 $(GO) test ./config ./node ./rpc ./cmd/borcli -run 'TestCommentedFile|TestMetricsAreDocumented|TestReference|TestDocs'
