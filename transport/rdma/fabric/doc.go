// Package fabric is the narrow verbs-shaped interface under the RDMA channel: devices, memory regions, queue pairs
// of type RC, completion queues with an event channel, and one shared receive queue. Backends: rdma/verbs (a NIC or
// software RoCE through libibverbs), rdma/shm (processes of one host), rdma/sim (seeded faults, for tests). The suite
// in rdma/fabrictest holds them to one behaviour.
//
// The words and rules are those of the verbs: a post is asynchronous and may be partial, send completions of one queue
// pair come in order, arming is one-shot and says nothing about completions that are already there, a queue pair that
// fails flushes what was posted and never recovers. What a backend cannot do it says in Caps.
//
// The package holds types only. It owns no goroutine and no memory.
package fabric
