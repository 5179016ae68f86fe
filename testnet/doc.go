// Package testnet runs networks of real bornode processes on loopback, for people (`bornode testnet ...`), scripts,
// tests and benchmarks: it makes keys, genesis and configuration in one folder, starts the processes, waits until
// blocks become final, adds nodes, kills and restarts them, cuts the network (through testnet/proxy, which stands
// between the processes; the nodes have no switch for it) and ends everything it started, by process id.
//
// What a network is stands in network.json in its folder, so that one command can start it and another can stop it.
// A Network value is used by one goroutine at a time. The package contains no part of a node.
package testnet
