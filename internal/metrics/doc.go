// Package metrics makes and registers the Prometheus metrics of a part. It brings nothing else along, so that libraries
// for other programs can use it; the process's registry and its handler are telemetry's.
package metrics
