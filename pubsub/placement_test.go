package pubsub

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

// accountsOf turns "LFD" into accounts; L leads.
func accountsOf(s string) (list []common.Address) {
	for _, c := range s {
		list = append(list, common.Address{byte(c)})
	}
	return list
}

func letters(list []common.Address) (s string) {
	for _, a := range list {
		s += string(rune(a[0]))
	}
	return s
}

func TestNextStepOfAPlacement(t *testing.T) {
	for name, c := range map[string]struct {
		replicas, wanted string
		count            int
		insync, spare    string
		gone             string
		replicasTo, to   string
	}{
		"all is well":                           {replicas: "LFG", count: 3, insync: "LFG", spare: "LFGX"},
		"one is behind":                         {replicas: "LFG", count: 3, insync: "LF", spare: "LFX"},
		"not ready":                             {replicas: "LFD", count: 3, insync: "", spare: "LFX", gone: "D"},
		"no majority":                           {replicas: "LFD", count: 3, insync: "L", spare: "LX", gone: "D"},
		"two are no majority without the other": {replicas: "LD", count: 2, insync: "L", spare: "LX", gone: "D"},
		"the dead one leaves where it would be short": {replicas: "LFD", count: 3, insync: "LF", spare: "LFX", gone: "D", replicasTo: "LF"},
		"another comes":                            {replicas: "LF", count: 3, insync: "LF", spare: "LFX", gone: "D", replicasTo: "XLF"},
		"it comes first among five":                {replicas: "LFGHD", count: 5, insync: "LFGH", spare: "LFGHX", gone: "D", replicasTo: "XLFGHD"},
		"then the dead one leaves":                 {replicas: "LFGHDX", count: 5, insync: "LFGHX", spare: "LFGHX", gone: "D", replicasTo: "LFGHX"},
		"not before it has everything":             {replicas: "LFGHDX", count: 5, insync: "LFGH", spare: "LFGHX", gone: "D"},
		"there is no other":                        {replicas: "LFD", count: 3, insync: "LF", spare: "LF", gone: "D"},
		"one that lost its role, though in sync":   {replicas: "LFD", count: 3, insync: "LFD", spare: "LFX", gone: "D", replicasTo: "LF"},
		"one at a time":                            {replicas: "LFGY", wanted: "LFGYX", insync: "LFG", spare: "LFGXY"},
		"the owner wants one more":                 {replicas: "LFG", wanted: "LFGX", insync: "LFG", spare: "LFGX", replicasTo: "LFGX"},
		"that cannot be reached":                   {replicas: "LFG", wanted: "LFGX", insync: "LFG", spare: "LFG"},
		"the next one can":                         {replicas: "LFG", wanted: "LFGXY", insync: "LFG", spare: "LFGY", replicasTo: "LFGY"},
		"the owner wants another":                  {replicas: "LFG", wanted: "LXF", insync: "LFG", spare: "LFGX", replicasTo: "LXFG"},
		"and not the old one":                      {replicas: "LXFG", wanted: "LXF", insync: "LXFG", spare: "LFGX", replicasTo: "LXF"},
		"the owner wants fewer, the slow one goes": {replicas: "LFGH", wanted: "LF", insync: "LFG", spare: "LFGH", replicasTo: "LFG"},
		"and none while it would be short":         {replicas: "LFGH", wanted: "LF", insync: "LG", spare: "LFGH"},
		"the owner wants another leader":           {replicas: "LFG", wanted: "FG", insync: "LFG", spare: "LFG", to: "F"},
		"who has to come first":                    {replicas: "L", wanted: "X", insync: "L", spare: "LX", replicasTo: "XL"},
		"who is wanted is gone, another stands in": {replicas: "LF", wanted: "LFD", insync: "LF", spare: "LFX", gone: "D", replicasTo: "LFX"},
		"and stays":                                {replicas: "LFX", wanted: "LFD", insync: "LFX", spare: "LFXY", gone: "D"},
		"until it is back":                         {replicas: "LFX", wanted: "LFD", insync: "LFX", spare: "LFXD", replicasTo: "LFDX"},
		"seven are the most":                       {replicas: "LABCDEF", count: 7, insync: "LABCDE", spare: "LABCDEX", gone: "F", replicasTo: "LABCDE"},
		"of seven one makes room for another":      {replicas: "LABCDEF", wanted: "LABCDEX", insync: "LABCDEF", spare: "LABCDEFX", replicasTo: "LABCDE"},
		"who then comes":                           {replicas: "LABCDE", wanted: "LABCDEX", insync: "LABCDE", spare: "LABCDEFX", replicasTo: "LABCDEX"},
		"a leader that lost its role":              {replicas: "LFG", count: 3, insync: "LFG", spare: "FGX", gone: "L", to: "F"},
		"the second of all is waited for":          {replicas: "L", count: 2, insync: "L", spare: "LX", replicasTo: "XL"},
	} {
		t.Run(name, func(t *testing.T) {
			gone := accountsOf(c.gone)
			p := placement{self: common.Address{'L'}, replicas: accountsOf(c.replicas), wanted: accountsOf(c.wanted), count: c.count, insync: accountsOf(c.insync),
				spare: accountsOf(c.spare), gone: func(a common.Address) bool { return slices.Contains(gone, a) }}
			m := p.next()
			require.Equal(t, c.replicasTo, letters(m.replicas))
			require.Equal(t, c.to == "", m.to == common.Address{})
			if c.to != "" {
				require.Equal(t, c.to, letters([]common.Address{m.to}))
			}
		})
	}
}

// world is one partition among brokers that come and go.
type placementWorld struct {
	placement
	down map[common.Address]bool
	all  []common.Address
}

// steps moves the placement on until it rests. Those who are there have everything before the next step.
func (w *placementWorld) steps(t *testing.T) {
	for range 40 {
		up := func(a common.Address) bool { return !w.down[a] }
		w.gone = func(a common.Address) bool { return w.down[a] }
		w.insync, w.spare = nil, nil
		for _, a := range w.replicas {
			if up(a) {
				w.insync = append(w.insync, a)
			}
		}
		for _, a := range w.all {
			if up(a) {
				w.spare = append(w.spare, a)
			}
		}
		m := w.next()
		switch {
		case m.to != common.Address{}:
			require.Contains(t, w.insync, m.to)
			w.self = m.to
			continue
		case m.replicas == nil:
			return
		}
		w.fits(t, m)
		w.replicas = m.replicas
	}
	require.FailNow(t, "it never rests")
}

// fits checks what the contract and the rules of replication ask of a change, and that nothing is given up for it.
func (w *placementWorld) fits(t *testing.T, m move) {
	t.Helper()
	n, next := len(w.replicas), len(m.replicas)
	require.Contains(t, []int{n - 1, n + 1}, next)
	require.LessOrEqual(t, next, contracts.MaxReplicas)
	require.Contains(t, m.replicas, w.self)
	require.GreaterOrEqual(t, len(w.insync), n/2+1, "no majority is there")
	live := 0
	for _, a := range m.replicas {
		if slices.Contains(w.insync, a) {
			live++
		}
		if !slices.Contains(w.replicas, a) {
			require.Equal(t, m.added, a)
			require.False(t, w.down[a])
		}
	}
	if n > 1 {
		require.GreaterOrEqual(t, live, next/2+1, "the next set would not be ready")
	}
	for _, a := range w.replicas {
		if !slices.Contains(m.replicas, a) && !w.down[a] {
			require.GreaterOrEqual(t, live, min(w.wantedCount(), contracts.MaxReplicas-1), "one that is there was given up too early")
		}
	}
	if next < w.wantedCount() && next < n {
		require.True(t, slices.ContainsFunc(w.spare, func(a common.Address) bool { return !slices.Contains(w.replicas, a) }), "nobody takes its place")
	}
}

// Whatever fails, comes back and is wanted: every change is one that replication allows, and where a majority is there
// the partition ends where it should be, without going back and forth.
func TestPlacementsComeToRestWhereTheyShould(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := &placementWorld{all: accountsOf("ABCDEFGH")[:3+r.IntN(6)], down: map[common.Address]bool{}}
		w.count, w.partition = 1+r.IntN(min(5, len(w.all))), r.IntN(8)
		w.replicas = slices.Clone(w.all[:w.count])
		w.self = w.replicas[0]
		for range 6 {
			switch a := w.all[r.IntN(len(w.all))]; r.IntN(5) {
			case 0, 1:
				w.down[a] = !w.down[a]
			case 2:
				clear(w.down)
			case 3:
				w.wanted = slices.Clone(w.all[:r.IntN(min(8, len(w.all)))])
				r.Shuffle(len(w.wanted), func(i, j int) { w.wanted[i], w.wanted[j] = w.wanted[j], w.wanted[i] })
			}
			if w.down[w.self] { // another one claims, if it may
				for _, a := range w.replicas {
					if !w.down[a] {
						w.self = a
					}
				}
			}
			if w.down[w.self] {
				continue
			}
			w.steps(t)
			up, there := 0, 0
			for _, a := range w.all {
				if !w.down[a] {
					up++
				}
			}
			for _, a := range w.replicas {
				if !w.down[a] {
					there++
				}
			}
			if there < len(w.replicas)/2+1 {
				continue
			}
			if up >= w.wantedCount() {
				require.Len(t, w.replicas, w.wantedCount(), "seed %d", seed)
				require.Equal(t, w.wantedCount(), there, "seed %d", seed)
			}
			for _, a := range w.wanted {
				require.True(t, w.down[a] || slices.Contains(w.replicas, a), "seed %d", seed)
			}
		}
	}
}
