// Package figures holds what the benchmarks have in common: a figure over several runs with its spread, how it is
// written in a table, and charts of such figures as SVG pages (bars with the spread as a whisker, lines over time).
// It is pure: nothing here measures, waits or reads a clock.
package figures
