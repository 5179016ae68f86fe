package kafka

import (
	"errors"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// enqueue hands an exchange to the writer; it waits while the queue is full.
func (c *Conn) enqueue(x *exchange) error {
	c.waiting.Add(1)
	select {
	case c.queue <- x:
		return nil
	case <-c.ctx.Done():
		c.waiting.Add(-1)
		return c.ctx.Err()
	}
}

// write answers what is queued, in order, until the reader closes the queue.
func (c *Conn) write() {
	buf := make([]byte, 0, 1024)
	for x := range c.queue {
		if c.ctx.Err() == nil {
			if err := c.answer(x, &buf); err != nil {
				c.note(err)
				c.cancel()
			}
		}
		c.release(x)
		c.waiting.Add(-1)
	}
}

var errNoAnswer = errors.New("a request found no answer; the log of the node says why")

func (c *Conn) answer(x *exchange, buf *[]byte) error {
	frame := x.frame
	if frame == nil {
		c.current = x
		resp := x.reply(c.ctx)
		c.current = nil
		if resp == nil {
			if c.ctx.Err() != nil {
				return c.ctx.Err()
			}
			return errNoAnswer
		}
		out := c.s.buffer(recordBytes(resp), buf)
		defer c.s.recycle(out, buf)
		*out = AppendResponse((*out)[:0], x.correlation, resp)
		x.reply = nil // and with it the records, while the client takes its time
		frame = *out
	}
	if err := c.send(frame); err != nil {
		return err
	}
	name := c.s.table.apiName(x.key)
	c.s.metrics.sent.Add(float64(len(frame)))
	c.s.metrics.seconds.WithLabelValues(name).Observe(time.Since(x.start).Seconds())
	return nil
}

// send writes a frame; a client that takes it more slowly than the lowest rate is given up.
func (c *Conn) send(frame []byte) error {
	total := c.deadline(len(frame))
	for len(frame) > 0 {
		chunk := frame[:min(len(frame), chunkBytes)]
		_ = c.nc.SetWriteDeadline(earlier(total, c.deadline(len(chunk))))
		n, err := c.nc.Write(chunk)
		if err != nil {
			return readError(err, "and did not take its answer")
		}
		frame = frame[n:]
	}
	return nil
}

// deadline is when so many bytes must have moved.
func (c *Conn) deadline(n int) time.Time {
	return time.Now().Add(c.s.cfg.FrameTimeout + time.Duration(n)*time.Second/lowestRate)
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// buffer is where an answer with so many bytes of records is encoded: the connection's own buffer, or one of the
// server's for a large one.
func (s *Server) buffer(records int, own *[]byte) *[]byte {
	if records < smallBuffer {
		return own
	}
	need := records + records/16 + 4096
	if b, ok := s.buffers.Get().(*[]byte); ok && cap(*b) >= need {
		return b
	}
	b := make([]byte, 0, need) // by what is there, not by what was granted: most answers have little of that
	return &b
}

// recordBytes is how many bytes of records an answer has.
func recordBytes(resp kmsg.Response) (n int) {
	f, ok := resp.(*kmsg.FetchResponse)
	if !ok {
		return 0
	}
	for i := range f.Topics {
		for j := range f.Topics[i].Partitions {
			n += len(f.Topics[i].Partitions[j].RecordBatches)
		}
	}
	return n
}

func (s *Server) recycle(b, own *[]byte) {
	switch {
	case b == own && cap(*b) > smallBuffer:
		*own = make([]byte, 0, 1024) // an idle connection keeps little
	case b != own && cap(*b) <= largestPooled:
		s.buffers.Put(b)
	}
}
