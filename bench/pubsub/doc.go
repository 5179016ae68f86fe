// Package pubsub measures topics on networks of real processes on this machine, as clients see them: produce and fetch by
// record size and acknowledgement, through a plain Kafka client and through the client library with and without
// encryption; time from producer to consumer at a fixed rate; the first answer to a new client, which includes its login;
// the time from a leader's death to the next acknowledgement; and, in this process, how long a decision of access takes.
//
// Variants (evidence on; evidence off; brokers linked over shared memory) are networks that run side by side. Loads take
// turns on them, so that what the machine does beside touches all alike, and two variants are compared round by round.
// Every figure is told with its spread.
//
// It owns nothing but the networks it starts and stops. Figures decide nothing: no test fails by one.
package pubsub
