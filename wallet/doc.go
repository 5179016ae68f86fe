// Package wallet is the keystore service of borwallet: several wallets of encrypted keys, unlocked for a time, that
// sign transactions, messages and typed data for whoever speaks JSON-RPC to them.
//
// A wallet is a folder of geth keystore files under one password. A Service owns the folder of all wallets (one process
// at a time, by a lock file), the keys that are unlocked, the timers that lock them again and the counters that slow
// down who guesses passwords. A Server owns the Unix socket and the loopback listener over which a Service is reached.
//
// Invariants:
//   - a key is in the clear only in the vault (memory outside Go's heap), and only while its wallet is unlocked; what
//     passes through other memory on its way there is overwritten at once where that is possible;
//   - nothing is signed that was not decoded, bounded, put into words and then shown, asked for or found in the policy;
//   - passwords are hashed one at a time, after the wallet's name and its delay were checked;
//   - no password, key or word of a mnemonic is logged or part of an error;
//   - files appear whole or not at all: what a crash leaves behind starts with a dot and is removed at the next start.
//
// The package knows no node: it fills in no nonce, gas or fee and sends nothing. It reads no settings of a program.
package wallet
