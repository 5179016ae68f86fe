// Package group coordinates consumer groups: Kafka's classic protocol (JoinGroup, SyncGroup, Heartbeat, LeaveGroup,
// static members, member ids given first) and the groups' committed offsets.
//
// Machine is pure: events and the time go in, effects come out (answers and records to append), nothing else is
// touched. It owns the groups of one shard, which is one partition of the topic TopicName; a group's shard is
// Partition(name). Coordinator drives the machines of the partitions this broker leads, one goroutine per shard: it
// passes requests in, appends records through the Log it was given, and answers.
//
// What must survive is in the log before it is answered: an offset commit when a majority of the partition's replicas
// has it, a group's assignment before any member learns it. A broker that takes a partition over replays it (requests
// are answered COORDINATOR_LOAD_IN_PROGRESS meanwhile) and goes on with the same members and generation. From time to
// time the machine writes everything it knows behind the end of the log, and the log before that is given up. Records
// of such a copy carry the offset of the record they copy, so that a replay never prefers them to something newer.
//
// Invariants: every request is answered once; a group has one generation at a time and every member of it learns the
// assignment its one leader gave; who is no member of the generation commits nothing; a refused or failed commit
// changes nothing that can be read here. It does not authorise (the Check given to the Coordinator does), does not know
// topics, and does not speak to the ledger: Changes hands out what is to be committed there.
package group
