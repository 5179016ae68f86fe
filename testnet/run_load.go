package testnet

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"time"

	"github.com/bornode/bornode/testnet/load"
)

// LoadOptions of `bornode testnet load`.
type LoadOptions struct {
	Kind     load.Kind
	Rate     int
	Duration time.Duration
	Size     int
	Nodes    []int // whose endpoints take the transactions; empty: all that run
	Follow   int   // node at which latencies are observed; -1: the first of Nodes
	Drain    time.Duration
}

// Load offers transactions with the network's funded accounts (all but those shown to people).
func (n *Network) Load(ctx context.Context, o LoadOptions) (*load.Result, error) {
	opts, err := n.loadOptions(o)
	if err != nil {
		return nil, err
	}
	return load.Run(ctx, opts)
}

// loadOptions names endpoints and accounts; what it returns is independent of the network's later changes.
func (n *Network) loadOptions(o LoadOptions) (load.Options, error) {
	urls := n.Endpoints()
	if len(o.Nodes) > 0 {
		urls = nil
		for _, i := range o.Nodes {
			x, err := n.Node(i)
			if err != nil {
				return load.Options{}, err
			}
			urls = append(urls, x.HTTP)
		}
	}
	if len(urls) == 0 {
		return load.Options{}, fmt.Errorf("testnet: no node of %s runs", n.Dir)
	}
	follow := ""
	if o.Follow >= 0 && o.Follow < len(n.Nodes) {
		follow = n.Nodes[o.Follow].HTTP
	}
	if o.Drain == 0 {
		o.Drain = 30*n.Slot() + 30*time.Second
	}
	var keys []*ecdsa.PrivateKey
	for _, a := range n.Accounts[shownAccounts:] {
		keys = append(keys, a.Private())
	}
	return load.Options{Endpoints: urls, Follow: follow, Accounts: keys, Kind: o.Kind, Size: o.Size,
		Rate: o.Rate, Duration: o.Duration, Drain: o.Drain}, nil
}
