package blockstore

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
)

// Cut is what is irreversible and durable at one moment: what a backup copies. The named bytes of every segment file
// stay as they are as long as the file is there, but for a damaged record that is put right in place; only pruning
// removes a file.
type Cut struct {
	First    hexutil.Uint64 `json:"first"`
	Height   hexutil.Uint64 `json:"height"` // of the last irreversible block
	Hash     common.Hash    `json:"hash"`
	QC       hexutil.Bytes  `json:"qc,omitempty"` // encodings of the newest proof
	FC       hexutil.Bytes  `json:"fc,omitempty"`
	Root     hexutil.Bytes  `json:"root,omitempty"` // of consensus, for the last irreversible block
	Segments []CutSegment   `json:"segments"`       // by height, without a gap from First to Height
}

// CutSegment is a segment file of a cut: its first Size bytes.
type CutSegment struct {
	Number uint32         `json:"number"`
	First  hexutil.Uint64 `json:"first"`
	Last   hexutil.Uint64 `json:"last"`
	Size   int64          `json:"size"`
	Name   string         `json:"name"` // below the store's directory
}

// Cut gives the store's cut at this moment. ErrNotFound: the store is empty.
func (s *Store) Cut() (*Cut, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if !s.has {
		return nil, fmt.Errorf("the store holds no irreversible block yet: %w", ErrNotFound)
	}
	c := &Cut{First: hexutil.Uint64(s.lib.First), Height: hexutil.Uint64(s.lib.Height), Hash: s.lib.Hash, Root: s.root}
	isOfLIB := func(x *block.Certificate) bool { return x != nil && x.Target.Hash == s.lib.Hash } // a recovery's base has none of its own
	if isOfLIB(s.qc) {
		c.QC = s.qc.Encode()
	}
	if isOfLIB(s.fc) {
		c.FC = s.fc.Encode()
	}
	for _, seg := range s.sealed {
		c.Segments = append(c.Segments, cutSegment(seg))
	}
	c.Segments = append(c.Segments, cutSegment(s.activeSegment()))
	return c, nil
}

func cutSegment(seg Segment) CutSegment {
	return CutSegment{Number: seg.Number, First: hexutil.Uint64(seg.First), Last: hexutil.Uint64(seg.Last), Size: seg.Size, Name: seg.Name}
}

// SegmentEnds are the links of a segment's blocks to their neighbours.
type SegmentEnds struct {
	Parent common.Hash // of the first block
	Last   common.Hash // hash of the last block
}

// ErrSegment is wrapped by every error of ReadSegment that says that the bytes are not those of the segment.
var ErrSegment = errors.New("invalid segment file")

// ReadSegment reads the bytes of a segment from their beginning and checks them: header, the checksum of every record,
// heights without a gap, block on block. fn, if not nil, gets every block and the
// bytes of its record; its error ends the reading. r must end behind
// the last record. Memory is taken for one record at a time.
func ReadSegment(r io.Reader, seg CutSegment, fn func(b *block.Block, size int) error) (ends SegmentEnds, err error) {
	in := bufio.NewReaderSize(r, readChunkBytes)
	head := make([]byte, segmentHeaderBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return ends, segmentError(seg, err)
	}
	if err := checkSegmentHeader(head, seg.Number, uint64(seg.First)); err != nil {
		return ends, segmentError(seg, err)
	}
	for height := uint64(seg.First); height <= uint64(seg.Last); height++ {
		b, size, err := readRecord(in, height)
		if err != nil {
			return ends, segmentError(seg, err)
		}
		if height == uint64(seg.First) {
			ends.Parent = b.Parent()
		} else if b.Parent() != ends.Last {
			return ends, segmentError(seg, fmt.Errorf("block %d is no child of block %d there", height, height-1))
		}
		ends.Last = b.Hash()
		if fn != nil {
			if err := fn(b, size); err != nil {
				return ends, err
			}
		}
	}
	if _, err := in.ReadByte(); !errors.Is(err, io.EOF) {
		return ends, segmentError(seg, fmt.Errorf("it goes on behind block %d", seg.Last))
	}
	return ends, nil
}

func segmentError(seg CutSegment, err error) error {
	return fmt.Errorf("%w: segment %d, blocks %d to %d: %w", ErrSegment, seg.Number, seg.First, seg.Last, err)
}

func readRecord(in io.Reader, height uint64) (b *block.Block, size int, err error) {
	head := make([]byte, recordHeadBytes)
	if _, err := io.ReadFull(in, head); err != nil {
		return nil, 0, fmt.Errorf("block %d: %w", height, err)
	}
	length, err := block.DecodeRecordHead(head)
	if err != nil {
		return nil, 0, fmt.Errorf("block %d: %w", height, err)
	}
	rec := append(head, make([]byte, recordHeaderBytes+int(length)-len(head))...) //nolint:gocritic // one buffer
	if _, err := io.ReadFull(in, rec[recordHeadBytes:]); err != nil {
		return nil, 0, fmt.Errorf("block %d: %w", height, err)
	}
	_, payload, err := block.DecodeRecord(rec)
	if err != nil {
		return nil, 0, fmt.Errorf("block %d: %w", height, err)
	}
	b, err = block.DecodeBlock(payload, maxPayloadBytes)
	if err == nil {
		err = checkBlock(b, height)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("block %d: %w", height, err)
	}
	return b, len(rec), nil
}
