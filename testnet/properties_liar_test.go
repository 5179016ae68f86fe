package testnet

import (
	"bytes"
	"crypto/tls"
	bin "encoding/binary"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/batch"
)

// liar stands between clients and the brokers, with certificates that its clients believe, and bends what is fetched of
// one topic.
type liar struct {
	t      *testing.T
	topic  string
	change func([][]byte) [][]byte // of at least four batches
	ca     string
	server *tls.Config
	client *tls.Config

	own map[string]string // listener by broker
}

func newLiar(t *testing.T, n *Network, topic string, change func([][]byte) [][]byte) *liar {
	t.Helper()
	ca, err := newAuthority()
	require.NoError(t, err)
	dir := t.TempDir()
	l := &liar{t: t, topic: topic, change: change, ca: filepath.Join(dir, "ca.pem"), client: brokersTLS(t, n), own: map[string]string{}}
	require.NoError(t, os.WriteFile(l.ca, ca.pem, 0o600))
	require.NoError(t, ca.issue(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")))
	cert, err := tls.LoadX509KeyPair(filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"))
	require.NoError(t, err)
	l.server = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS13}
	for _, broker := range n.Brokers() {
		ear, err := tls.Listen("tcp", "127.0.0.1:0", l.server)
		require.NoError(t, err)
		t.Cleanup(func() { _ = ear.Close() })
		l.own[broker] = ear.Addr().String()
		go func() {
			for {
				c, err := ear.Accept()
				if err != nil {
					return
				}
				go l.serve(c, broker)
			}
		}()
	}
	return l
}

func (l *liar) addresses() (list []string) {
	for _, a := range l.own {
		list = append(list, a)
	}
	return list
}

// question is a request whose answer is still to come.
type question struct{ key, version int16 }

// serve passes frames on in both directions.
func (l *liar) serve(c net.Conn, broker string) {
	defer c.Close()
	b, err := tls.Dial("tcp", broker, l.client)
	if err != nil {
		return
	}
	defer b.Close()
	var mu sync.Mutex
	asked := map[uint32]question{}
	go func() {
		defer b.Close()
		for {
			f, err := readFrame(c)
			if err != nil || len(f) < 8 {
				return
			}
			mu.Lock()
			asked[bin.BigEndian.Uint32(f[4:])] = question{int16(bin.BigEndian.Uint16(f)), int16(bin.BigEndian.Uint16(f[2:]))}
			mu.Unlock()
			if writeFrame(b, f) != nil {
				return
			}
		}
	}()
	for {
		f, err := readFrame(b)
		if err != nil || len(f) < 4 {
			return
		}
		mu.Lock()
		q := asked[bin.BigEndian.Uint32(f)]
		delete(asked, bin.BigEndian.Uint32(f))
		mu.Unlock()
		if writeFrame(c, l.bend(q, f)) != nil {
			return
		}
	}
}

// bend puts the liar's addresses in the place of the brokers', and its batches in the place of theirs.
func (l *liar) bend(q question, f []byte) []byte {
	if q.key != int16(kmsg.Metadata) && q.key != int16(kmsg.Fetch) {
		return f
	}
	resp := kmsg.ResponseForKey(q.key)
	resp.SetVersion(q.version)
	head := 4
	if resp.IsFlexible() {
		head++ // no tags
	}
	if err := resp.ReadFrom(f[head:]); err != nil {
		l.t.Errorf("answer %d of version %d: %v", q.key, q.version, err)
		return f
	}
	switch r := resp.(type) {
	case *kmsg.MetadataResponse:
		for i := range r.Brokers {
			x := &r.Brokers[i]
			if own, ok := l.own[net.JoinHostPort(x.Host, strconv.Itoa(int(x.Port)))]; ok {
				_, port, _ := net.SplitHostPort(own)
				n, _ := strconv.Atoi(port)
				x.Port = int32(n)
			}
		}
	case *kmsg.FetchResponse:
		for i := range r.Topics {
			for j := range r.Topics[i].Partitions {
				if p := &r.Topics[i].Partitions[j]; r.Topics[i].Topic == l.topic {
					p.RecordBatches = l.lie(p.RecordBatches)
				}
			}
		}
	}
	return resp.AppendTo(bytes.Clone(f[:head]))
}

func (l *liar) lie(served []byte) []byte {
	var list [][]byte
	err := batch.Each(served, func(_ batch.Header, one []byte) error {
		list = append(list, bytes.Clone(one))
		return nil
	})
	if err != nil || len(list) < 4 {
		return served
	}
	return bytes.Join(l.change(list), nil)
}

func readFrame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	f := make([]byte, min(bin.BigEndian.Uint32(size[:]), 64<<20))
	_, err := io.ReadFull(r, f)
	return f, err
}

func writeFrame(w io.Writer, f []byte) error {
	_, err := w.Write(append(bin.BigEndian.AppendUint32(nil, uint32(len(f))), f...))
	return err
}
