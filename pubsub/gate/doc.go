// Package gate is the client's side of a topic's safety: an engine between a Kafka client and the brokers that logs in,
// encrypts, decrypts and verifies. The client library gets its connections from Engine.Dial, within the process;
// unmodified clients connect to a Proxy on the loopback interface. Both are the same engine.
//
// For every connection of a client there is one to a broker, opened by the engine: TLS, SASL OAUTHBEARER with a fresh
// token, and the login is renewed before it ends. Requests keep their order and may be pipelined; answers are paired
// with them in order. What the engine does not look into passes byte for byte.
//
// Produce: batches of encrypted topics are sealed under the topic's present epoch. Without the key they are refused
// (TOPIC_AUTHORIZATION_FAILED, with a message), and when the chain cannot be asked whether a topic is encrypted they
// are refused too (REQUEST_TIMED_OUT): nothing leaves in clear by accident. That a topic is encrypted is believed of
// whoever answers for the chain, that it is no more is not, nor an older epoch: Config.Encrypt and what the engine once saw
// count more (DowngradeError). A broker's receipt is checked before its acknowledgement is passed on; what an idempotent
// producer sends again goes out as the same bytes.
//
// Fetch: batches must be whole, hold the wanted offset, follow each other, and open with the key. A good beginning of an
// answer is passed on; the first bad batch is told as an error (CORRUPT_MESSAGE, a TamperError to Config.Failed and the
// log). With Follow, every delivered batch is kept as a hash until a checkpoint on the chain proves it; a difference is a
// TamperError, and nothing more of that partition is delivered. With Proved, only what is proved is delivered. A checkpoint
// that a broker disputes proves nothing (DisputedError), and what nobody proves for long is told (UnprovedError).
// A sealed batch names its session and counter, which rise in a partition: a copy at another offset loses its records
// on the way to the client, who goes on behind it; one that is older than what stands before it, and was not read here, is
// told as a TamperError too. What was never read here, and copies of batches in clear, are seen by proofs alone.
// Memory is bounded: when too much waits for its proof, deliveries wait too.
//
// Clients are told that brokers know Produce up to version 9 and Fetch up to version 12 (the last ones that name topics
// by name), and are given no fetch sessions: every answer is judged by its request alone.
//
// Goroutines: three per connection (session), one for the proofs (watch), one per listener and client of a proxy; all
// end with Close. Figures go to Config.Metrics. The engine keeps no files. It does not know JSON-RPC, keys' whereabouts or certificates: Topics, Keys,
// Tokens, Proofs and Receipts are its owner's (package client). It cannot see that a broker withholds the newest
// batches, other than by the checkpoints that bind them.
package gate
