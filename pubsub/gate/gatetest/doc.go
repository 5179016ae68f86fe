// Package gatetest is a small Kafka broker for tests of clients: it keeps topics in memory, checks tokens, and lies where
// a test asks it to. It owns its state under one mutex and ends with Close. It does not replicate, persist or authorise.
package gatetest
