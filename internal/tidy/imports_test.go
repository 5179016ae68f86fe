package tidy

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/bornode/bornode"

// level places every package (path below the module). A package may import lower levels, and of its own level only
// what siblings names. An unknown package fails the test: give it its room first.
var level = map[string]int{
	"internal/aside": 0, "internal/invariant": 0, "internal/bls": 0, "internal/nearest": 0, "internal/failpoint": 0, "internal/format": 0, "internal/exit": 0,
	"internal/leaks": 0, "internal/loopback": 0, "internal/metrics": 0, "internal/ownclock": 0, "internal/pause": 0, "internal/scrub": 0, "internal/senders": 0, "internal/telemetry": 0, "internal/tidy": 0, "internal/usage": 1, "internal/vfs": 0,
	"block": 1, "recovery": 1, "contracts": 1, "genesis": 1, "consensus/dpos": 1, "consensus/clock": 1,
	"transport": 1, "transport/rdma/fabric": 1,
	"pubsub/batch": 1, "pubsub/acl": 1, "pubsub/token": 1, "pubsub/seal": 1,
	"pubsub/proof": 2, "pubsub/store": 2, "pubsub/kafka": 2, "pubsub/group": 2, "pubsub/ledger": 2, "pubsub/replica": 2,
	"pubsub/evidence": 2, "pubsub": 3, "pubsub/gate": 3, "pubsub/gate/gatetest": 2, "pubsub/client": 3, "bench/pubsub": 5,
	"chain/keyvalue": 1, "chain": 2, "txpool": 2, "blockstore": 2, "internal/vfs/faultfs": 1, "internal/vfs/faultmount": 2,
	"transport/conformance": 2, "transport/link": 2, "transport/tcp": 2, "transport/mem": 2,
	"transport/rdma": 2, "transport/rdma/fabrictest": 2, "transport/rdma/sim": 2, "transport/rdma/shm": 2,
	"transport/rdma/verbs": 2, "transport/rdma/detect": 2,
	"consensus": 3, "consensus/signer": 3, "sync": 3, "rpc": 3, "wallet": 3,
	"config": 4, "node": 4, "sim": 4, "sim/model": 4,
	"testnet": 5, "testnet/proxy": 5, "testnet/load": 5, "sim/nodes": 5, "sim/nodes/statestore": 1, "bench": 5, "cmd/bornode": 5, "cmd/borcli": 5, "cmd/borwallet": 5, "scripts/rdmalab": 5,
	"bench/figures": 0, "bench/wire": 4, "bench/forge": 5, "bench/join": 5,
}

// siblings lists the imports allowed within one level.
var siblings = map[string][]string{
	"genesis":               {"block", "contracts", "recovery"},
	"recovery":              {"block"},
	"consensus/dpos":        {"block", "recovery"},
	"consensus/clock":       {"block"},
	"transport/conformance": {"transport/link"},
	"transport/tcp":         {"transport/link"},
	"transport/mem":         {"transport/link"},
	"transport/rdma/detect": {"transport/link", "transport/rdma"},
	"consensus":             {"consensus/signer"},
	"pubsub/seal":           {"pubsub/batch"},
	"pubsub/replica":        {"pubsub/store"},
	"pubsub/evidence":       {"pubsub/proof"},
	"pubsub/client":         {"pubsub/gate"},
	"node":                  {"config"},
	"testnet":               {"testnet/proxy", "testnet/load"},
	"bench":                 {"testnet", "testnet/load", "bench/forge"},
	"bench/join":            {"bench/forge"},
	"bench/pubsub":          {"testnet", "testnet/load"},
	"cmd/bornode":           {"testnet", "testnet/load", "testnet/proxy", "bench", "bench/forge", "bench/join", "bench/pubsub"},
	"scripts/rdmalab":       {"testnet", "testnet/load"},
}

// settings are the packages that read a program's settings.
var settings = []string{"config", "cmd/borcli", "cmd/borwallet"}

// providers is everything below the transport interface.
var providers = []string{"transport/tcp", "transport/mem", "transport/link", "transport/rdma", "transport/rdma/fabric",
	"transport/rdma/sim", "transport/rdma/shm", "transport/rdma/verbs", "transport/rdma/detect"}

// forbidden are imports that their level would allow: the upper parts know the transport interface, never a
// provider, and no storage package but through interfaces of their own.
var forbidden = map[string][]string{
	"consensus": append([]string{"blockstore"}, providers...),
	"sync":      append([]string{"blockstore", "chain"}, providers...),
	"rpc":       append([]string{"blockstore"}, providers...),
	"chain":     {"transport", "blockstore"},
	"txpool":    {"transport"},
}

type pkg struct {
	ImportPath   string
	Dir          string
	Imports      []string
	TestImports  []string
	XTestImports []string
}

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Imports,TestImports,XTestImports", module+"/...")
	out, err := cmd.Output()
	require.NoError(t, err)
	dec := json.NewDecoder(strings.NewReader(string(out)))
	var list []pkg
	for dec.More() {
		var p pkg
		require.NoError(t, dec.Decode(&p))
		// Some npm packages carry Go code, and the RDMA lab copies some below build while it runs.
		if !strings.Contains(p.Dir, "node_modules") && !strings.HasPrefix(p.ImportPath, module+"/build/") {
			list = append(list, p)
		}
	}
	require.NotEmpty(t, list)
	return list
}

func TestImportTable(t *testing.T) {
	for _, p := range packages(t) {
		from := strings.TrimPrefix(p.ImportPath, module+"/")
		lf, ok := level[from]
		require.True(t, ok, "package %s has no room in the import table: give it one in internal/tidy and ARCHITECTURE.md", from)
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				if strings.HasPrefix(imp, "github.com/spf13/viper") {
					require.Contains(t, settings, from, "%s imports viper, which lives only where a program's settings are read", from)
				}
				continue
			}
			lt, ok := level[to]
			require.True(t, ok, "%s imports unknown package %s", from, to)
			require.False(t, slices.Contains(forbidden[from], to), "%s must not import %s: declare an interface and let node pass the value in", from, to)
			if lt == lf {
				require.True(t, slices.Contains(siblings[from], to) || lf == 0, "%s (level %d) imports its sibling %s", from, lf, to)
			} else {
				require.Less(t, lt, lf, "%s (level %d) imports %s (level %d) from below", from, lf, to, lt)
			}
		}
	}
}

func TestEveryPackageHasItsDoc(t *testing.T) {
	for _, p := range packages(t) {
		if strings.Contains(p.ImportPath, "/cmd/") || len(p.Imports)+len(p.TestImports) == 0 && p.ImportPath == module {
			continue
		}
		_, err := os.Stat(filepath.Join(p.Dir, "doc.go"))
		require.NoError(t, err, "%s: say in doc.go what the package is for, who owns its state and what it does not do", p.ImportPath)
	}
}
