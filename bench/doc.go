// Package bench measures bornode on the machine it runs on: imports of a prepared history (transfers, payloads, empty
// blocks; full and certified) and a network of four real processes (rates, latencies to inclusion and finality). Its
// sub-packages measure paths between two processes (wire) and a node that joins (join), on histories made by forge;
// figures holds spreads and charts. Every comparison is interleaved in one run and told with its spread; the result is
// a table for people and JSON for programs. Benchmarks decide nothing: no test fails by a figure.
package bench
