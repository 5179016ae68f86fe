// Package telemetry builds what every part reports through: the zap logger of a process and its registry of
// Prometheus metrics with the HTTP handler that shows them. It keeps no state of its own; a Server owns one goroutine
// and stops by its context.
package telemetry
