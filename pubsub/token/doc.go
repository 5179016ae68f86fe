// Package token makes and checks what a client shows a broker instead of a password: a token, signed by the key of a
// ledger account or of a pseudonym, that is good for one chain and at most a day. A pseudonym's token carries the
// certificate by which the topic's auditor admitted the pseudonym, so that a broker learns that it was admitted, and
// not whose it is.
//
// Both are values without state. What is signed is the same digest that the contract Topics computes (EIP-191 over
// the hash of the ABI-encoded fields, with the chain's number and the contract's address), so that a broker can hand a
// token with the scope Admin to the contract as proof that its holder wanted a call.
//
// The package knows nothing of the ledger: whether an account may do something, who audits a topic, which epoch its
// pseudonyms are in and whether one was revoked is for the caller to ask. A token is no secret shared with one broker:
// whoever reads it may use it until it expires, so it travels over TLS only.
package token
