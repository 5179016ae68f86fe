// Package load offers transactions to a running network at a given rate and measures, from the outside through
// JSON-RPC, what was committed and how long inclusion and finality took. It is used by `bornode testnet load`, by the
// benchmarks and by tests. One goroutine follows the chain and owns the measurements; senders own one endpoint and a
// set of accounts each, so that nonces stay in order. It judges nothing: the result is plain data.
package load
