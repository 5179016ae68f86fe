// Package batch reads and stamps Kafka's record batches (message format 2, KIP-98): what producers send, brokers store
// and consumers fetch. Brokers give a batch its base offset and leader epoch, which its checksum does not cover. A Checker
// looks into the records of a producer's batch before it is taken, so that what is committed can be read; it changes and
// keeps nothing of them.
//
// The package does no I/O and keeps no state but the buffers of a Checker. Records themselves are read by clients
// (franz-go); batches of encrypted topics are opened by package seal alone.
package batch
