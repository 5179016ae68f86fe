package pubsub

import (
	"slices"
	"sync"

	"github.com/bornode/bornode/pubsub/kafka"
)

// conns knows the tenants that each connection works with.
type conns struct {
	mu sync.Mutex
	of map[*kafka.Conn][]string
}

func newConns() *conns { return &conns{of: make(map[*kafka.Conn][]string)} }

func (c *conns) joined(conn *kafka.Conn, tenant string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Contains(c.of[conn], tenant)
}

// join counts a connection to a tenant; false: it, or the connection, has as many as it may.
func (c *conns) join(q *quotas, conn *kafka.Conn, tenant string, most uint32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	have := c.of[conn]
	if slices.Contains(have, tenant) {
		return true
	}
	if len(have) >= maxTenantsOfConn || !q.join(tenant, most) {
		return false
	}
	c.of[conn] = append(have, tenant)
	return true
}

func (c *conns) closed(q *quotas, conn *kafka.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, tenant := range c.of[conn] {
		q.leave(tenant)
	}
	delete(c.of, conn)
}
