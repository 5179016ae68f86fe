// Package tidy keeps the tree in order: who may import whom (DESIGN §4), a doc.go in every package, short files,
// no left-over marks, no skipped tests and no sleeping as synchronisation. It has tests only.
package tidy
