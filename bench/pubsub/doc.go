// Package pubsub measures topics on a network of real processes on this machine, as a Kafka client sees them: produce and
// fetch by record size and acknowledgement, time from producer to consumer at a fixed rate, and the first answer to a
// new client, which includes its login. Variants (evidence at its usual pace or as little as the settings allow; brokers
// linked over TCP or shared memory) take turns, each on a fresh network in every round, so that what the machine does
// beside touches all alike; every figure is told with its spread.
//
// It owns nothing but the networks it starts and stops. Figures decide nothing: no test fails by one.
package pubsub
