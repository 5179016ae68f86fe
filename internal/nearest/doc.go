// Package nearest finds what somebody probably meant to write, for error messages about unknown names. It is pure and
// keeps no state.
package nearest
