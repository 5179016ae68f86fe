package testnet

import (
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"text/tabwriter"
)

// Describe prints what a person needs next: endpoints, accounts with money and the commands to go on with.
func (n *Network) Describe(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 4, 2, ' ', 0)
	fmt.Fprintf(t, "network %d is up in %s, slots of %s; blocks are final on every node\n\n", n.ChainID, n.Dir, n.Slot())
	fmt.Fprintln(t, "NODE\tROLE\tJSON-RPC\tWEBSOCKET\tMETRICS\tACCOUNT")
	for _, x := range n.Nodes {
		fmt.Fprintf(t, "%d\t%s\t%s\t%s\thttp://%s/metrics\t%s\n", x.Index, x.Role, x.HTTP, x.WS, x.Metrics, x.Account)
	}
	if list := n.Brokers(); len(list) > 0 {
		fmt.Fprintf(t, "\ntopics: %s with TLS (certificates are from %s); tenant %s belongs to the first funded account\n", strings.Join(list, ","), n.TopicsCA(), DemoTenant)
	}
	fmt.Fprintln(t, "\nFUNDED ACCOUNT\tPRIVATE KEY (of a test network: worth nothing)")
	for _, a := range n.Accounts[:shownAccounts] {
		fmt.Fprintf(t, "%s\t0x%s\n", a.Address, a.Key)
	}
	fmt.Fprintf(t, "\ntheir keys, and the admin's, are files in %s; a producer's is keys/producer.json in its folder\n", filepath.Dir(n.accountKeyFile("")))
	fmt.Fprintf(t, "next: bornode testnet status|load|kill|restart|partition|heal|add|logs|down --dir %s\n", n.Dir)
	return t.Flush()
}
