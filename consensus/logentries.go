package consensus

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// logEntry is one entry of the vote log, as it was read.
type logEntry struct {
	payload []byte
	synced  uint64 // bytes of the file that were durable when it was written
	size    int    // of the whole entry
}

// appendEntry appends one framed payload to b, where synced bytes of the file are durable.
func appendEntry(b []byte, synced uint64, payload []byte) []byte {
	at := len(b)
	b = binary.BigEndian.AppendUint32(b, uint32(len(payload))) //nolint:gosec // ours, below maxEntryBytes
	b = binary.BigEndian.AppendUint32(b, 0)
	b = binary.BigEndian.AppendUint64(b, synced)
	b = append(b, payload...)
	binary.BigEndian.PutUint32(b[at+4:], entrySum(b[at:]))
	return b
}

// entrySum is the checksum of a whole entry: of all but the checksum.
func entrySum(entry []byte) uint32 {
	return crc32.Update(crc32.Checksum(entry[:4], castagnoli), castagnoli, entry[8:])
}

// nextEntry reads the entry at the start of b, or reports false.
func nextEntry(b []byte) (e logEntry, ok bool) {
	if len(b) < entryHeaderSize {
		return e, false
	}
	n := int(binary.BigEndian.Uint32(b))
	if n == 0 || n > maxEntryBytes || len(b) < entryHeaderSize+n {
		return e, false
	}
	e = logEntry{b[entryHeaderSize : entryHeaderSize+n], binary.BigEndian.Uint64(b[8:]), entryHeaderSize + n}
	return e, binary.BigEndian.Uint32(b[4:]) == entrySum(b[:e.size])
}

// nextEntry2 reads the entry of release 0.3 at the start of b, or reports false: u32 length of payload, u32 crc32c of both,
// payload.
func nextEntry2(b []byte) (e logEntry, ok bool) {
	const headerSize = 8
	if len(b) < headerSize {
		return e, false
	}
	n := int(binary.BigEndian.Uint32(b))
	if n == 0 || n > maxEntryBytes || len(b) < headerSize+n {
		return e, false
	}
	e = logEntry{payload: b[headerSize : headerSize+n], size: headerSize + n}
	return e, binary.BigEndian.Uint32(b[4:]) == crc32.Update(crc32.Checksum(b[:4], castagnoli), castagnoli, e.payload)
}

// readEntries reads a vote log. cut is where the first bytes behind its header are that are no whole entry; the length of the
// file if there are none. damaged says that they had been durable: an entry behind them says that the file was synced beyond.
// Then whole entries behind the damage are read too; else what follows is of a write that was never synced, and left out. The
// marks of syncs are left out too. A log of release 0.3 tells nothing of syncs: whole entries behind the first bad bytes say that
// they are damaged there.
func readEntries(raw []byte) (payloads [][]byte, cut int, damaged bool) {
	at, before := min(voteLogHeaderSize, len(raw)), 0 // before: payloads in front of the first bad bytes
	cut = len(raw)
	synced := uint64(0)
	old := bytes.HasPrefix(raw, []byte(voteLogMagic2))
	next := nextEntry
	if old {
		next = nextEntry2
	}
	for at < len(raw) {
		e, ok := next(raw[at:])
		if !ok {
			if cut == len(raw) {
				cut, before = at, len(payloads)
			}
			at++
			continue
		}
		synced = max(synced, e.synced)
		if e.payload[0] != payloadSynced {
			payloads = append(payloads, e.payload)
		}
		at += e.size
	}
	damaged = cut < len(raw) && (synced > uint64(cut) || old && len(payloads) > before) //nolint:gosec // not negative
	if !damaged && cut < len(raw) {
		payloads = payloads[:before]
	}
	return payloads, cut, damaged
}
