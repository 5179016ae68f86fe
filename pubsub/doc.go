// Package pubsub is the broker: it answers Kafka's requests from the log, the replicas, the groups and the final state of
// the ledger. It decides who may do what (by the view of the ledger alone), holds tenants to their quotas, records every
// operation, allowed or refused, for the evidence, and keeps the store and the replicas true to the leases.
//
// State: the broker's own is small: connections and their tenants, token buckets, waiting fetches, the block of producer
// ids. Each lies behind a mutex that is held for no I/O. Logs belong to package store, leases to replica, groups to group,
// the view to ledger; a view never changes, so one request is judged by one view.
//
// Invariants: nothing is answered as written before the replicas say so; consumers see nothing above the high watermark;
// a refused principal learns nothing of whether a topic exists; every answer of a broker that does not lead says so.
//
// A leader changes the replicas of a partition one at a time, in an epoch in which it is ready, and only while a majority
// of the present set and of the next one has all that is committed (placement).
//
// It does not speak the wire (package kafka), does not send transactions (a Submitter of the node does) and never looks
// into records.
package pubsub
