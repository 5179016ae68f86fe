package ledger

import (
	"context"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/acl"
)

// Fixed is a View of one tenant and its list that no chain stands behind; every account has its whole reputation. It is
// there to measure what decisions cost.
func Fixed(t Tenant, entries []Acl) *View {
	unharmed := common.BigToHash(big.NewInt(contracts.Reputation)).Bytes()
	v := newView(&facts{log: zap.NewNop(), call: func(context.Context, []byte) ([]byte, uint64, error) { return unharmed, 0, nil }})
	list := make([]acl.Entry, len(entries))
	for i := range entries {
		list[i] = acl.Entry(entries[i])
	}
	d := v.tenants.draft()
	d.put(contracts.TenantID(t.Name), &tenant{Tenant: t, acls: acl.New(list), decisions: &decisions{}})
	v.tenants = d.t
	return v
}
