// Package aside keeps dated copies of what a start or a repair is about to cut off or rewrite because it is damaged, so
// that whoever looks into the damage finds the bytes as they were.
package aside
