package verbs

// A request's number (wr_id) says what its completion is about even when it failed and its other fields are not valid:
// kind (4 bits), index of the queue in the device's table (12), generation of that index (16), then the request's
// position in the send queue or its place in the receive queue (32). The generation keeps late completions of a closed
// queue pair from its successor.
const (
	kindSend    = iota + 1 // the caller's request
	kindControl            // this package's own
	kindRecv               // an entry of a shared receive queue
)

func sendID(kind uint8, index int, generation uint16, position uint32) uint64 {
	return uint64(kind)<<60 | uint64(index)<<48 | uint64(generation)<<32 | uint64(position)
}

func recvID(index int, place uint32) uint64 {
	return uint64(kindRecv)<<60 | uint64(index)<<48 | uint64(place)
}

func splitID(id uint64) (kind uint8, index int, generation uint16, low uint32) {
	return uint8(id >> 60), int(id >> 48 & (maxQPs - 1)), uint16(id >> 32), uint32(id)
}
