// Package bench measures bornode on the machine it runs on: imports of a prepared history (transfers, payloads, empty
// blocks; full and certified) and a network of four real processes (rates, latencies to inclusion and finality).
// Every comparison is interleaved in one run and told with its spread; the result is a table for people and JSON for
// programs. The history is real: blocks built by chain and finalised by consensus/dpos with real signatures, one
// producer, in virtual time. Benchmarks decide nothing: no test fails by a figure.
package bench
