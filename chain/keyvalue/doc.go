// Package keyvalue is the key-value store under the state database: Pebble behind go-ethereum's ethdb.KeyValueStore. It
// keeps the files as go-ethereum's own wrapper does, with the same options, and differs in what a failing disk does.
//
// go-ethereum's wrapper gives read errors to callers that take them for a missing key, so that a damaged table reads as
// an account that does not exist, and Pebble's fatal errors panic in goroutines that nobody owns, or in one whose caller
// recovers panics and goes on. Here every error of the disk, found by a read, a write or in the background, goes to
// Options.Fail before anybody can use what was read. Fail ends the process; when it returns, the caller gets the error.
//
// A Store may be used from any goroutine. Pebble owns the goroutines; they end in Close.
package keyvalue
