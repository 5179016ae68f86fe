// Package rdma carries the frames of a link over queue pairs: two receive rings per direction that the peer writes
// into by RDMA WRITE, with credits for ring bytes and for receive entries, on top of a fabric backend (a NIC, shared
// memory, a simulation). docs/wire-rdma.md has the wire format.
package rdma
