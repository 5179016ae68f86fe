package batch

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/golang/snappy"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// Codecs of batches.
const (
	codecGzip   = 1
	codecSnappy = 2
	codecLZ4    = 3
	codecZstd   = 4
)

// Checker looks into batches. Unpacking takes turns: at most so many batches are unpacked at one time as New was told.
// Its methods may be called concurrently.
type Checker struct {
	turns   chan struct{}
	buffers sync.Pool // of *bufio.Reader
	gzips   sync.Pool // of *gzip.Reader
	lz4s    sync.Pool // of *lz4.Reader
	zstds   sync.Pool // of *zstd.Decoder
}

// NewChecker makes a checker that unpacks at most atOnce batches at one time.
func NewChecker(atOnce int) *Checker { return &Checker{turns: make(chan struct{}, max(atOnce, 1))} }

// unpack gives f the records of a compressed section.
func (c *Checker) unpack(codec int16, section []byte, f func(source) error) error {
	c.turns <- struct{}{}
	defer func() { <-c.turns }()
	in := bytes.NewReader(section)
	switch codec {
	case codecGzip:
		z, _ := c.gzips.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		defer c.gzips.Put(z)
		if err := z.Reset(in); err != nil {
			return packed(err)
		}
		return c.read(z, len(section), f)
	case codecLZ4:
		z, _ := c.lz4s.Get().(*lz4.Reader)
		if z == nil {
			z = lz4.NewReader(nil)
		}
		defer c.lz4s.Put(z)
		z.Reset(in)
		return c.read(z, len(section), f)
	case codecZstd:
		z, _ := c.zstds.Get().(*zstd.Decoder)
		if z == nil {
			var err error
			if z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindowBytes)); err != nil {
				return packed(err)
			}
		}
		defer c.zstds.Put(z)
		if err := z.Reset(in); err != nil {
			return packed(err)
		}
		defer func() { _ = z.Reset(nil) }() // lets go of the section
		return c.read(z, len(section), f)
	}
	return c.read(&snappyReader{in: section}, len(section), f)
}

// read gives f what z unpacks, as far as the bounds allow.
func (c *Checker) read(z io.Reader, size int, f func(source) error) error {
	b, _ := c.buffers.Get().(*bufio.Reader)
	if b == nil {
		b = bufio.NewReaderSize(nil, unpackBufferBytes)
	}
	defer c.buffers.Put(b)
	b.Reset(&bounded{in: z, left: min(MaxUnpackedBytes, FreeUnpackedBytes+MaxRatio*int64(size))})
	defer b.Reset(nil)
	return f(b)
}

// bounded ends with ErrUnpacked where more is unpacked than it may be.
type bounded struct {
	in   io.Reader
	left int64
}

// Read implements io.Reader.
func (r *bounded) Read(p []byte) (int, error) {
	n, err := r.in.Read(p)
	if r.left -= int64(n); r.left < 0 {
		return n, ErrUnpacked
	}
	if err != nil && !errors.Is(err, io.EOF) {
		err = packed(err)
	}
	return n, err
}

func packed(err error) error {
	if errors.Is(err, io.EOF) { // of an empty section: no end of records
		err = io.ErrUnexpectedEOF
	}
	if errors.Is(err, zstd.ErrWindowSizeExceeded) {
		return fmt.Errorf("%w: they announce a window of zstd above %d bytes; use a compression level of at most 19", ErrRecords, maxWindowBytes)
	}
	return fmt.Errorf("%w: they cannot be unpacked: %w", ErrRecords, err)
}

// Frames of snappy as Java's clients write them: a header, then blocks behind their lengths. Others write one block.
var javaSnappy = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

const (
	javaSnappyHeader = 16
	// A block of snappy unpacks to less than so many times its length: an element of three bytes copies 64 at most.
	snappyRatio = 22
)

var errSnappy = errors.New("snappy: not a block")

// snappyReader unpacks block by block.
type snappyReader struct {
	in     []byte
	begun  bool
	framed bool
	buf    []byte
	out    []byte // of buf, not read yet
}

// Read implements io.Reader.
func (r *snappyReader) Read(p []byte) (int, error) {
	if !r.begun {
		r.begun = true
		if len(r.in) == 0 {
			return 0, errSnappy
		}
		if len(r.in) >= javaSnappyHeader && bytes.HasPrefix(r.in, javaSnappy) {
			r.framed, r.in = true, r.in[javaSnappyHeader:]
		}
	}
	for len(r.out) == 0 {
		if len(r.in) == 0 {
			return 0, io.EOF
		}
		block := r.in
		r.in = nil
		if r.framed {
			if len(block) < 4 {
				return 0, errSnappy
			}
			n := int64(binary.BigEndian.Uint32(block))
			if n == 0 || n > int64(len(block)-4) {
				return 0, errSnappy
			}
			block, r.in = block[4:4+n], block[4+n:]
		}
		size, err := snappy.DecodedLen(block)
		if err != nil {
			return 0, err
		}
		if int64(size) > min(MaxUnpackedBytes, snappyRatio*int64(len(block))) {
			return 0, errSnappy
		}
		if r.out, err = snappy.Decode(r.buf[:cap(r.buf)], block); err != nil {
			return 0, err
		}
		r.buf = r.out
	}
	n := copy(p, r.out)
	r.out = r.out[n:]
	return n, nil
}
