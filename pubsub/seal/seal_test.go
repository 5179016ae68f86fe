package seal

import (
	"bytes"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/pubsub/batch"
)

var (
	chain = common.Hash{1}
	topic = common.Hash{2}
)

func plain(size int) []byte {
	return batch.Encode(batch.Header{BaseOffset: 0, LeaderEpoch: -1, Attributes: 4, LastOffsetDelta: 1, FirstTimestamp: 10, MaxTimestamp: 11,
		ProducerID: 99, ProducerEpoch: 1, FirstSequence: 5, Count: 2}, bytes.Repeat([]byte("x"), size))
}

func sealed(t *testing.T, k Key, raw []byte) []byte {
	t.Helper()
	out, err := NewSealer(chain, topic, 3, k).Seal(nil, raw, 7)
	require.NoError(t, err)
	return out
}

func ring(t *testing.T, k Key) *Ring {
	t.Helper()
	r := NewRing(chain)
	require.NoError(t, r.Add(topic, 3, k))
	return r
}

func TestWhatIsSealedOpens(t *testing.T) {
	for _, size := range []int{0, 1, 100, 100_000} {
		k, raw := NewKey(), plain(size)
		box := sealed(t, k, raw)
		require.Equal(t, len(raw)+Overhead, len(box))
		require.Equal(t, uint32(3), EpochOf(box))
		_, _, err := batch.Parse(box)
		require.NoError(t, err, "a broker must take it")
		batch.Assign(box, 1234, 9) // what a broker may do
		out, err := ring(t, k).Open([]byte("before"), box, topic, 7)
		require.NoError(t, err)
		want := bytes.Clone(raw)
		batch.Assign(want, 1234, 9)
		require.Equal(t, append([]byte("before"), want...), out)
	}
}

// Brokers mark copies of batches without a producer's id where that would be (package replica): they open all the same.
func TestACopyThatBrokersMarkedOpens(t *testing.T) {
	k, raw := NewKey(), plain(30)
	mark := func(b []byte, id int64, epoch int16, sequence int32) []byte {
		h, _, err := batch.Parse(b)
		require.NoError(t, err)
		h.ProducerID, h.ProducerEpoch, h.FirstSequence = id, epoch, sequence
		return batch.Encode(h, bytes.Clone(batch.Records(b)))
	}
	for _, first := range []int32{-1, 0} { // some clients count without an id
		box := sealed(t, k, mark(raw, -1, -1, first))
		_, err := ring(t, k).Open(nil, mark(box, -2-1234, -1, 9), topic, 7)
		require.NoError(t, err)
		_, err = ring(t, k).Open(nil, mark(box, 99, 1, 5), topic, 7)
		require.ErrorAs(t, err, new(*TamperedError), "it was given a producer")
	}
	_, err := ring(t, k).Open(nil, mark(sealed(t, k, raw), -1, -1, -1), topic, 7)
	require.ErrorAs(t, err, new(*TamperedError), "its producer was taken away")
}

func TestNothingOfASealedBatchCanBeChanged(t *testing.T) {
	k, raw := NewKey(), plain(40)
	box, r := sealed(t, k, raw), ring(t, k)
	for i := range box {
		if i < 21 {
			continue // offset, length, epoch, magic, checksum: the broker's, or checked by whoever parses
		}
		bad := bytes.Clone(box)
		bad[i] ^= 4
		out, err := r.Open(nil, bad, topic, 7)
		require.Error(t, err, "byte %d", i)
		require.Nil(t, out)
	}
	for name, f := range map[string]func() error{
		"another partition": func() error { _, err := r.Open(nil, box, topic, 8); return err },
		"cut short":         func() error { _, err := r.Open(nil, box[:len(box)-1], topic, 7); return err },
	} {
		var tampered *TamperedError
		require.ErrorAs(t, f(), &tampered, name)
	}
	other := common.Hash{9}
	require.NoError(t, r.Add(other, 3, k))
	var tampered *TamperedError
	_, err := r.Open(nil, box, other, 7)
	require.ErrorAs(t, err, &tampered, "another topic with the same key")
	require.Equal(t, other, tampered.Topic)
}

func TestMissingKeysAreNamed(t *testing.T) {
	k := NewKey()
	box := sealed(t, k, plain(10))
	var none *NoKeyError
	_, err := NewRing(chain).Open(nil, box, topic, 7)
	require.ErrorAs(t, err, &none)
	require.Equal(t, NoKeyError{Topic: topic, Epoch: 3}, *none)
	_, err = ring(t, NewKey()).Open(nil, box, topic, 7)
	require.ErrorAs(t, err, &none)
	require.True(t, none.Other)
	_, err = ring(t, k).Open(nil, plain(10), topic, 7)
	require.ErrorIs(t, err, ErrNotSealed)
}

func TestAKeyCanBeReplaced(t *testing.T) {
	wrong, right := NewKey(), NewKey()
	r := ring(t, wrong)
	_, err := r.Open(nil, sealed(t, wrong, plain(10)), topic, 7)
	require.NoError(t, err)
	require.NoError(t, r.Add(topic, 3, right))
	_, err = r.Open(nil, sealed(t, right, plain(10)), topic, 7)
	require.NoError(t, err)
	_, err = r.Open(nil, sealed(t, wrong, plain(10)), topic, 7)
	require.Error(t, err)
}

func TestNoncesAreNeverUsedTwice(t *testing.T) {
	s := NewSealer(chain, topic, 3, NewKey())
	s.limit = 50 // several sessions
	raw := plain(1)
	var mu sync.Mutex
	seen := map[string]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				box, err := s.Seal(nil, raw, 0)
				section := box[batch.HeaderBytes:]
				mu.Lock()
				used := string(section[sessionAt:sectionHeader])
				if err != nil || seen[used] {
					t.Errorf("nonce %x used twice, or %v", used, err)
				}
				seen[used] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	require.Len(t, seen, 400)
	ids := map[string]bool{}
	for used := range seen {
		ids[used[:16]] = true
	}
	require.Len(t, ids, 8)
}

func TestManySessionsAreOpenedWithinTheBound(t *testing.T) {
	k := NewKey()
	r, raw := ring(t, k), plain(1)
	for range OpenSessions + 10 {
		_, err := r.Open(nil, sealed(t, k, raw), topic, 7)
		require.NoError(t, err)
	}
	require.LessOrEqual(t, len(r.sessions), OpenSessions)
}

func TestKeysAreSealedToOneReaderOfOneEpoch(t *testing.T) {
	owner, err := crypto.GenerateKey()
	require.NoError(t, err)
	sign := func(m []byte) ([]byte, error) { return crypto.Sign(accounts.TextHash(m), owner) }
	for _, suite := range []Suite{X25519, Hybrid} {
		t.Run(suite.String(), func(t *testing.T) {
			id, err := NewIdentity(suite)
			require.NoError(t, err)
			other, err := NewIdentity(suite)
			require.NoError(t, err)
			c := Context{Chain: chain, Topic: topic, Epoch: 4, Reader: common.Address{5}}
			k := NewKey()
			require.NoError(t, CheckPublic(id.Public()))
			box, err := k.SealTo(id.Public(), c, sign)
			require.NoError(t, err)
			require.LessOrEqual(t, len(box), SealedBytes)
			got, by, err := id.Open(box, c)
			require.NoError(t, err)
			require.Equal(t, k, got)
			require.Equal(t, crypto.PubkeyToAddress(owner.PublicKey), by)
			_, _, err = other.Open(box, c)
			require.ErrorIs(t, err, ErrSealed)
			for name, bad := range map[string]Context{
				"chain": {Topic: topic, Epoch: 4, Reader: c.Reader}, "topic": {Chain: chain, Epoch: 4, Reader: c.Reader},
				"epoch": {Chain: chain, Topic: topic, Epoch: 5, Reader: c.Reader}, "reader": {Chain: chain, Topic: topic, Epoch: 4},
			} {
				_, _, err = id.Open(box, bad)
				require.ErrorIs(t, err, ErrSealed, name)
			}
			for i := range box {
				bad := bytes.Clone(box)
				bad[i] ^= 1
				_, by, err := id.Open(bad, c)
				require.True(t, err != nil || by != crypto.PubkeyToAddress(owner.PublicKey), "byte %d", i)
			}
		})
	}
}

func TestIdentitiesAreKeptInPrivateFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "seal.json")
	id, err := NewIdentity(Hybrid)
	require.NoError(t, err)
	require.NoError(t, id.Save(path))
	st, err := os.Stat(path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), st.Mode().Perm())
	again, err := LoadIdentity(path)
	require.NoError(t, err)
	require.Equal(t, id.Public(), again.Public())
	require.ErrorContains(t, id.Save(path), "never overwritten")
	require.NoError(t, os.Chmod(path, 0o640))
	_, err = LoadIdentity(path)
	require.ErrorContains(t, err, "chmod 600")
}

func FuzzRingOpen(f *testing.F) {
	k := Key{1}
	r := NewRing(chain)
	require.NoError(f, r.Add(topic, 3, k))
	s := NewSealer(chain, topic, 3, k)
	s.id, s.limit = [16]byte{1}, 1<<20
	box, err := s.Seal(nil, plain(20), 7)
	require.NoError(f, err)
	f.Add(box)
	f.Add(plain(3))
	f.Fuzz(func(t *testing.T, raw []byte) {
		out, err := r.Open(nil, raw, topic, 7)
		if err != nil {
			require.Nil(t, out)
		}
	})
}

func FuzzIdentityOpen(f *testing.F) {
	id, err := NewIdentity(X25519)
	require.NoError(f, err)
	f.Add([]byte{1, 1})
	f.Add(make([]byte, 200))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, err := id.Open(b, Context{})
		require.ErrorIs(t, err, ErrSealed)
		require.Error(t, CheckPublic(append([]byte{0}, b...)))
		_, _ = parseIdentity(b)
	})
}

func BenchmarkSeal(b *testing.B) {
	for _, size := range []int{1 << 10, 16 << 10, 1 << 20} {
		raw, k := plain(size), NewKey()
		s, r := NewSealer(chain, topic, 3, k), NewRing(chain)
		require.NoError(b, r.Add(topic, 3, k))
		box, err := s.Seal(nil, raw, 7)
		require.NoError(b, err)
		var buf []byte
		name := map[int]string{1 << 10: "1KiB", 16 << 10: "16KiB", 1 << 20: "1MiB"}[size]
		b.Run("parse-"+name, func(b *testing.B) {
			b.SetBytes(int64(size))
			for b.Loop() {
				_, _, _ = batch.Parse(raw)
			}
		})
		b.Run("seal-"+name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = s.Seal(buf[:0], raw, 7)
			}
		})
		b.Run("open-"+name, func(b *testing.B) {
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				buf, _ = r.Open(buf[:0], box, topic, 7)
			}
		})
	}
}
