// Package client is the Go library for topics: it produces, consumes and administers, with encryption and verification on
// from the start.
//
// Open connects one account (Signer) to a network: to the brokers, by the Kafka protocol, and to a node, by JSON-RPC. The
// genesis file is the root of what is believed: checkpoints of topics are events of blocks, blocks are final by
// certificates, and whose certificates count follows from the genesis file. A Producer's records are durable on a quorum
// of replicas when Send returns, once, with a receipt that the broker signed. A Consumer's records are whole, in order,
// and the ones that the chain binds: at once in the mode Proved, or within seconds in the mode Follow, which delivers first
// and then compares every checkpoint; what differs is a *TamperError that names topic, partition and offset. Admin sends
// the account's own transactions, and returns when they are final.
//
// What is encrypted. Batches of topics that were created encrypted are sealed for the topic's readers (package seal). The
// owner publishes an epoch's key, sealed to each reader, with NewEpoch and AddReaders; producers are readers too. A missing
// key is a *NoKeyError that names topic and epoch; nothing is ever sent in clear instead. Taking a reader out means a new
// epoch, and works forward only.
//
// Who is believed. Brokers are not, but that they hold nothing back: what the newest records are, only they know until the
// next checkpoint; where a log or a group's offset begins is their word. A checkpoint may be a broker's lie: it must continue
// those that were seen before, and none of the nodes in Config may dispute it (*DisputedError); Config.Witnesses makes the
// client wait until several have found it in their own logs. What nobody proves for long is an *UnprovedError. The node is believed about which topics exist, who owns them and who their readers are, but not about
// what they hold. Keys of a topic are taken only from its owner; name owners in Config.Owners where the node could lie
// about that, since a producer would encrypt for whoever made the key. That a topic is encrypted is believed, and from then
// on kept for the life of the producer or consumer; a node that calls it plain from the start is seen only for topics in
// Config.Encrypt. With both, a node and brokers that lie together can refuse, withhold and delay, and neither read nor
// write. With a Certificate the account is a pseudonym:
// brokers learn that an auditor admitted it, not whose it is.
//
// Every Producer and Consumer has an engine (package gate) and a franz-go client on top of it. They own their state and end
// with Close, or with the Client's. Memory is bounded by limits.go and franz-go's own options.
//
// The package keeps no files and no offsets, does not retry what a contract refused, and does not find brokers by itself.
package client
