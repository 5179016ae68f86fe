// Package acl evaluates Kafka's access control lists for one tenant's topics and groups: which principal may do what,
// from which host, on which resource. The rules are Kafka's: a DENY wins over every ALLOW, nothing is allowed without
// an ALLOW, READ, WRITE, DELETE and ALTER imply DESCRIBE, ALTER_CONFIGS implies DESCRIBE_CONFIGS, ALL stands for every
// operation. A resource is matched by its whole name, by a prefix, or by "*", which means everything of the tenant and
// never more: whoever asks picks the tenant's Set first. The owners of the tenant and of the topic are always allowed,
// so that nobody locks himself out.
//
// "User:*" stands for everybody, pseudonyms too. Numbers are those of the Kafka protocol.
//
// A Set never changes and may be used by any number of goroutines; With makes a changed copy. The package keeps no
// state, does no I/O and caches no decision: package ledger does.
package acl
