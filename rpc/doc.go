// Package rpc answers JSON-RPC: eth_, net_, web3_, txpool_, bor_, debug_ and admin_ over HTTP, WebSocket and a Unix
// socket, on go-ethereum's rpc server (docs/rpc.md is written from methods.go). It reads the chain, the pool and the network
// through small interfaces and keeps no state of the chain but an index of logs, which it can make again.
//
// Methods run on the goroutine of their request and may run at the same time. Whatever a client can use up is bounded for
// each host and for all hosts together: connections (limitListener), requests at work, executions, traces and log
// queries (gate: half of the places is kept for hosts that have none), bytes of requests and answers, subscriptions,
// filters and waiting calls (budget). A request has a place while it works, never while it waits for another gate, an
// event or its client (caller). WebSocket and Unix connections (wire) read the next message only when there is room.
//
// Events come from Server.Run (the chain's, in order: a bounded queue and a goroutine that passes them on, so that the
// chain never waits for subscribers) and from one goroutine that reads the pool; the hub puts them into one bounded queue
// per subscriber and never waits. Each subscription has a goroutine that sends its queue to the client.
// A subscriber that does not keep up is told and its connection closed (a polled filter: dropped, and the next poll says
// so); no event is ever left out silently. One goroutine adds final blocks to the log index.
//
// Invariants: every request is bounded (limits.go, Config); admin_ is offered on the Unix socket and to requests with a
// token, nowhere else; what a client sends can make a method fail, never the node. The package signs nothing, holds no
// keys but the secret of tokens, and decides nothing.
package rpc
