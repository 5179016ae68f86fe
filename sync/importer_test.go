package blocksync

import (
	"slices"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/transport"
)

// A peer's uncertified blocks were entered; the next peer's chunk, which is the chain, does not stand on them.
func TestImporterDoesNotBlameWhoStandsOnAnotherBranch(t *testing.T) {
	for _, flush := range []bool{true, false} {
		onMem(t, func(l *lab) {
			n := l.node("n", nil, func(c *Config, _ *Deps) { c.RunAheadBlocks = 8 })
			good := newChain(200, chainShape{})
			fork := extend(good[:90], 20, chainShape{salt: 5, noFC: true})
			im := &importer{m: n.m}
			r := im.do(t.Context(), &importJob{blocks: slices.Concat(good[1:90], fork[90:101]), peer: "byzantine", end: 100, bytes: 100})
			require.Empty(t, r.bad)
			if flush {
				require.Empty(t, im.do(t.Context(), &importJob{flush: true}).bad)
			}
			r = im.do(t.Context(), &importJob{blocks: good[101:150], peer: "honest", end: 149, bytes: 100})
			require.Empty(t, r.bad, "nobody is to blame yet: %v", r.err)
			require.Equal(t, []claim{{"byzantine", 100, fork[100].Hash()}, {"honest", 100, good[100].Hash()}}, r.disputed)
			require.Zero(t, im.taken)
			// From LIB on with the honest one's blocks alone.
			lib := n.Status().LIB.Height
			r = im.do(t.Context(), &importJob{blocks: good[lib+1 : 150], peer: "honest", end: 149, bytes: 100})
			require.Empty(t, r.disputed)
			require.EqualValues(t, 147, n.Status().LIB.Height)
		})
	}
}

func TestImporterFutureBlockBlamesNobody(t *testing.T) {
	onMem(t, func(l *lab) {
		good := newChain(20, chainShape{noFC: true})
		n := l.node("n", nil, func(_ *Config, d *Deps) {
			was := d.Classify
			d.Classify = func(err error) Verdict {
				if was(err) == VerdictInvalid {
					return VerdictFuture
				}
				return was(err)
			}
		})
		n.do(func() { n.refuse = map[common.Hash]bool{good[11].Hash(): true} })
		im := &importer{m: n.m}
		im.do(t.Context(), &importJob{blocks: good[1:11], peer: "p", end: 10, bytes: 1})
		im.do(t.Context(), &importJob{blocks: good[11:21], peer: "p", end: 20, bytes: 1})
		r := im.do(t.Context(), &importJob{flush: true})
		require.Empty(t, r.bad)
		require.Equal(t, []claim{{"p", 11, good[11].Hash()}}, r.disputed)
	})
}

// After a stretch without certificates ranges are certified again.
func TestImporterReturnsToRanges(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil, func(c *Config, _ *Deps) { c.RunAheadBlocks = 80 })
		chain := extend(newChain(10, chainShape{}), 100, chainShape{noFC: true})
		chain = extend(chain, 100, chainShape{})
		im := &importer{m: n.m}
		for at := 1; at < len(chain); at += 10 {
			end := min(at+10, len(chain))
			r := im.do(t.Context(), &importJob{blocks: chain[at:end], peer: "p", end: uint64(end - 1), bytes: 10})
			require.Empty(t, r.bad)
			require.Empty(t, r.disputed)
			require.LessOrEqual(t, len(im.tail), 20)
			require.LessOrEqual(t, len(im.rest), 20)
		}
		require.EqualValues(t, 208, n.Status().LIB.Height)
		require.NotEmpty(t, n.added)
		require.Less(t, slices.Max(n.added), uint64(125), "blocks above the stretch are not entered one by one")
	})
}

// One producer serves valid blocks of its own that are not the chain, end to end.
func TestForkedTailHarmsNoHonestPeer(t *testing.T) {
	onMem(t, func(l *lab) {
		n := l.node("n", nil, small(20), func(c *Config, _ *Deps) { c.RunAheadBlocks = 40 })
		good := newChain(200, chainShape{})
		fork := extend(good[:90], 12, chainShape{salt: 5, noFC: true})
		a := l.script("a", n).at(good[182], good[180], 181).hello()
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			for {
				select {
				case msg := <-a.in[transport.LaneConsensus]:
					if MessageType(msg.Type) != TypeSyncRequest {
						continue
					}
					r, _ := DecodeSyncRequest(msg.Payload)
					for h := r.Start; h > 0 && h <= min(r.End, 100); h++ { // and nothing above
						b := slices.Concat(good[:90], fork[90:])[h]
						s := SignedBlock{ReqIndex: r.ReqIndex, Height: h, Remaining: r.End - h, Raw: b.Encode()}
						a.send(transport.LaneCatchUp, TypeSignedBlock, s.Encode())
					}
				case <-a.over:
					return
				}
			}
		}()
		l.eventually(func() bool { return n.Status().Head.Hash == fork[100].Hash() }, "a's branch is in")
		one, two := l.node("one", good), l.node("two", good)
		n.dial(one.host)
		n.dial(two.host)
		l.caughtUp(n, good)
		for _, h := range []transport.Host{one.host, two.host} {
			require.NoError(t, n.m.bans.Check(h.ID(), time.Now()))
		}
		require.Len(t, n.m.Peers(), 3-n.m.bans.Len())
		_ = a.link.Close("done")
		<-answered
	})
}

// The final blocks prove who was wrong.
func TestDisputesAreSettledByLIB(t *testing.T) {
	onMem(t, func(l *lab) {
		good := newChain(20, chainShape{})
		n := l.node("n", good)
		liar := l.script("liar", n).at(good[20], good[18], 19).hello()
		l.script("honest", n).at(good[20], good[18], 19).hello()
		l.eventually(func() bool { return n.m.Status().Peers == 2 }, "linked")
		other := extend(good[:19], 1, chainShape{salt: 3})[19]
		n.m.query(func() {
			n.m.dispute([]claim{{"liar", 19, other.Hash()}, {"honest", 19, good[19].Hash()}}, nil, time.Now())
		})
		require.Len(t, n.m.Peers(), 2, "not known yet")
		more := extend(good, 3, chainShape{})
		n.do(func() {
			for _, b := range []*block.Block{more[21], more[22], more[23]} {
				n.insert(b)
			}
		})
		liar.goneWith(Forked)
		require.Len(t, n.m.Peers(), 1)
		require.NoError(t, n.m.bans.Check("honest", time.Now()))
		n.m.query(func() { require.Zero(t, n.m.peers["honest"].suspected) })
	})
}
