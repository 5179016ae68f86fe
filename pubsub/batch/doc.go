// Package batch reads and stamps Kafka's record batches (message format 2, KIP-98): what producers send, brokers store
// and consumers fetch. Brokers give a batch its base offset and leader epoch, which its checksum does not cover, and
// never look inside its records.
//
// It keeps no state and does no I/O. Records themselves are read by clients (franz-go) and by package seal.
package batch
