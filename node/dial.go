package node

import (
	"context"
	"errors"
	"time"

	"go.uber.org/zap"

	"github.com/bornode/bornode/internal/pause"
	"github.com/bornode/bornode/transport"
)

// dialRetry is how often a peer of the configuration that was no member is tried again.
const dialRetry = time.Second

// dialPeers has the peers of the configuration dialled; the host keeps them linked from then on. One that is no member is
// tried again: who is one is not known before the blocks are executed again, and a peer may be admitted later.
func (n *Node) dialPeers(ctx context.Context) {
	waiting := n.cfg.P2P.Peers
	for first := true; len(waiting) > 0; first = false {
		var refused []string
		for _, addr := range waiting {
			err := n.host.Dial(ctx, addr)
			switch {
			case err == nil || ctx.Err() != nil:
			case !errors.Is(err, transport.ErrNotMember):
				n.log.Warn("peer of the configuration is not dialled", zap.String("address", addr), zap.Error(err))
			default:
				refused = append(refused, addr)
				if first {
					n.log.Info("peer of the configuration is not dialled before it is a member", zap.String("address", addr), zap.Error(err))
				}
			}
		}
		if waiting = refused; len(waiting) > 0 && !pause.For(ctx, dialRetry) {
			return
		}
	}
}
