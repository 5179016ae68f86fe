// Package evidence makes what package proof checks: on every broker the trees of the partitions that it keeps, on the
// leader of a topic's first partition the topic's checkpoints, and of all that clients did the operations log.
//
// # Trees
//
// Committed says how far a partition is committed; a worker reads the batches from the log, hashes each once and stores
// leaf and hashes under the leaf's number in goleveldb. That is the only work per batch, and none of it is on the way of a
// request but a receipt, which a client must ask for: its batch is hashed when it gets its place (the tree takes that hash
// then), and a group of batches is signed while the disks work. What a crash takes is read from the log again; what
// retention took from the log meanwhile is fetched from the partition's other replicas.
//
// # Checkpoints
//
// In each interval the leader of partition 0 gathers the heads of the topic's other partitions from their leaders, signed,
// and queues a checkpoint for the chain where something was added. Every broker takes the heads behind each checkpoint that
// became final and compares them with its own trees. A difference is an Alarm: log, metric, Alarms. So is a notary that
// cannot show the heads.
//
// Leaders sign the heads that they give, and the notary keeps the newest of each partition. Two heads of one size under one
// signature are a Report: an alarm, and a file that shows anybody who lied. One notary sees only what it is given; receipts,
// which clients have, can be held against proofs as well (proof.Accuse).
//
// # Operations
//
// Equal operations of one principal within a window become one entry. Closed windows go to a queue on disk, from there in
// commits of at most 512 to the contract: one commit at a time, numbered, its bytes kept until it is final, so that it
// counts once across crashes. What is lost by a crash of the process: the operations of the window that was open, at most
// Config.Window; nothing of what is in the queue. While the final state here counts fewer commits than were final before,
// none is made: the chain is catching up, and a number that is used would be taken for the commit that used it. Operated
// never blocks and never loses: under pressure it folds an account's allowed operations over all partitions and hosts; at
// the very limit Ready holds requests back.
//
// The Evidence owns its database, which is of one chain and waits where the disk is full; its goroutines end with Run. It
// does not decide who may do what, sends no transaction by itself and trusts no broker's answer that it can check.
package evidence
