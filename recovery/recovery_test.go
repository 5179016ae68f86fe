package recovery

import (
	"crypto/ecdsa"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/internal/bls"
)

const chainID = 7

var genesisHash = common.Hash{0x9e}

// person is an account with both keys.
type person struct {
	account common.Address
	seal    *ecdsa.PrivateKey
	vote    *bls.SecretKey
}

func newPerson(t testing.TB, name string) person {
	seal, err := crypto.ToECDSA(crypto.Keccak256([]byte(name)))
	require.NoError(t, err)
	secret := crypto.Keccak256([]byte(name + " votes"))
	secret[0] = 0
	vote, err := bls.SecretKeyFromBytes(secret)
	require.NoError(t, err)
	return person{crypto.PubkeyToAddress(seal.PublicKey), seal, vote}
}

func people(t testing.TB, n int) (out []person, s block.Schedule) {
	for i := range n {
		p := newPerson(t, fmt.Sprintf("producer %d", i))
		out, s = append(out, p), append(s, block.Producer{Account: p.account, Key: p.vote.PublicKey()})
	}
	return out, s
}

func (p person) signs(t testing.TB, digest common.Hash) (s [block.SealLength]byte) {
	b, err := crypto.Sign(digest[:], p.seal)
	require.NoError(t, err)
	copy(s[:], b)
	return s
}

func (p person) seat() Seat {
	d := block.PossessionDigest(chainID, p.account, p.vote.PublicKey())
	return Seat{p.account, p.account, p.vote.PublicKey(), p.vote.Sign(d[:])}
}

// certificate is one by the first n of them.
func certificate(t testing.TB, d block.Domain, kind block.VoteKind, source, target block.Point, s block.Schedule, voters []person) *block.Certificate {
	l := block.Link{Kind: kind, Source: source, Target: target}
	digest := d.VoteDigest(l)
	var sigs [][96]byte
	voted := make(map[common.Address]bool)
	for _, p := range voters {
		sigs, voted[p.account] = append(sigs, p.vote.Sign(digest[:])), true
	}
	c := block.NewCertificate(l, []block.Schedule{s}, func(a common.Address) bool { return voted[a] })
	sum, err := bls.Aggregate(sigs)
	require.NoError(t, err)
	c.Aggregate = sum
	return c
}

func blockAt(slot uint64, branch byte) Block {
	return Block{Height: slot / 2, Slot: slot, Hash: common.Hash{branch, byte(slot)}, StateRoot: common.Hash{0x50, byte(slot)}}
}

// statement is a good one: the first two of four go on.
func statement(t testing.TB) *Statement {
	ps, s := people(t, 4)
	base := blockAt(20, 1)
	fc := certificate(t, block.Domain{Genesis: genesisHash}, block.Precommit, blockAt(18, 1).Point(), blockAt(18, 1).Point(), s, ps[:3])
	lost := []common.Address{ps[2].account, ps[3].account}
	slices.SortFunc(lost, func(a, b common.Address) int { return a.Cmp(b) })
	fresh := newPerson(t, "fresh")
	return &Statement{
		Genesis: genesisHash, Number: 1, Base: Base{base, fc}, FirstSlot: 30, Seats: []Seat{ps[0].seat(), ps[1].seat(), fresh.seat()},
		Lost: lost, Reason: "two machines burnt", Time: 1_700_000_000,
	}
}

func signedBy(t testing.TB, s *Statement, by ...person) *Signed {
	x := &Signed{Statement: *s.Clone()}
	for _, p := range by {
		require.NoError(t, x.AddSignature(Signature{p.account, p.signs(t, s.Hash())}))
	}
	return x
}

func TestThresholdOfDistinctKeys(t *testing.T) {
	ps, s := people(t, 4)
	keys := make([]common.Address, len(s))
	for i := range s {
		keys[i] = s[i].Account
	}
	stranger := newPerson(t, "stranger")
	r := statement(t)
	require.NoError(t, signedBy(t, r, ps[0], ps[3], ps[1]).Verify(keys, 3), "the order of signing does not matter")
	require.NoError(t, signedBy(t, r, ps[0], ps[1], ps[2], stranger).Verify(keys, 3))
	require.ErrorContains(t, signedBy(t, r, ps[0], ps[1], stranger).Verify(keys, 3), "2 of the 4 recovery keys signed", "a stranger does not count")
	require.ErrorContains(t, signedBy(t, r, ps[0], ps[1], ps[1]).Verify(keys, 3), "2 of the 4", "one key counts once")

	twice := signedBy(t, r, ps[0], ps[1])
	twice.Signatures = append(twice.Signatures, twice.Signatures[1])
	require.ErrorContains(t, twice.Verify(keys, 3), "rising order")
	foreign := signedBy(t, r, ps[0], ps[1], ps[2])
	foreign.Signatures[1].Seal = foreign.Signatures[0].Seal
	require.ErrorIs(t, foreign.Verify(keys, 3), ErrInvalid)
	require.ErrorIs(t, foreign.AddSignature(Signature{ps[3].account, foreign.Signatures[0].Seal}), ErrInvalid)

	for _, c := range []struct{ k, low int }{{1, 1}, {2, 2}, {3, 3}, {4, 3}, {5, 4}, {6, 5}, {7, 5}, {21, 15}} {
		require.Equal(t, c.low, DefaultThreshold(c.k))
		require.Greater(t, 3*c.low, 2*c.k)
		require.LessOrEqual(t, 3*(c.low-1), 2*c.k)
	}
	require.ErrorIs(t, CheckKeys(keys, 2), ErrInvalid)
	require.ErrorIs(t, CheckKeys(keys, 5), ErrInvalid)
	require.ErrorIs(t, CheckKeys([]common.Address{keys[0], keys[0], keys[1]}, 3), ErrInvalid)
}

// changes are what can be changed in a statement, each alone.
func changes() map[string]func(*Statement) {
	return map[string]func(*Statement){
		"genesis": func(s *Statement) { s.Genesis[0]++ }, "number": func(s *Statement) { s.Number, s.Previous = 2, common.Hash{1} },
		"height": func(s *Statement) { s.Base.Height++ }, "slot": func(s *Statement) { s.Base.Slot++ }, "hash": func(s *Statement) { s.Base.Hash[3]++ },
		"state root": func(s *Statement) { s.Base.StateRoot[3]++ }, "FC": func(s *Statement) { s.Base.FC = nil }, "first slot": func(s *Statement) { s.FirstSlot++ },
		"order": func(s *Statement) { s.Seats[0], s.Seats[1] = s.Seats[1], s.Seats[0] }, "seat": func(s *Statement) { s.Seats = s.Seats[:2] },
		"proof": func(s *Statement) { s.Seats[0].Proof[3]++ }, "lost": func(s *Statement) { s.Lost = s.Lost[:1] }, "may undo": func(s *Statement) { s.MayUndo = true },
		"reason": func(s *Statement) { s.Reason += "." }, "time": func(s *Statement) { s.Time++ },
	}
}

func TestHashCoversAll(t *testing.T) {
	hashes := map[common.Hash]string{statement(t).Hash(): "unchanged"}
	for name, change := range changes() {
		s := statement(t)
		change(s)
		require.NoError(t, s.Check(), name)
		require.Empty(t, hashes[s.Hash()], "%s", name)
		hashes[s.Hash()] = name
	}
	require.Equal(t, common.HexToHash("0x4da1ce41f30f694e4f0c70b906b53627d11ecf3377e7bfb633ffdbe6840070da"), statement(t).Hash(), "the encoding is fixed: signatures of other releases count")
}

func TestBothFormsKeepAll(t *testing.T) {
	ps, _ := people(t, 4)
	for name, change := range changes() {
		r := statement(t)
		change(r)
		x := signedBy(t, r, ps[0], ps[1], ps[2])
		y, err := DecodeSigned(x.Encode())
		require.NoError(t, err, name)
		require.Equal(t, x.Encode(), y.Encode(), name)
		text, err := json.Marshal(x)
		require.NoError(t, err)
		var z Signed
		require.NoError(t, json.Unmarshal(text, &z), name)
		require.Equal(t, x.Encode(), z.Encode(), name)
	}
	x := signedBy(t, statement(t), ps[0])
	text, err := json.Marshal(x)
	require.NoError(t, err)
	var z Signed
	for was, is := range map[string]string{
		`"first_slot":30`: `"first_slot":31`, `"reason":`: `"why":`, `"kind":"bornode recovery"`: `"kind":"bornode survivor report"`, `"seal_key":"0x`: `"seal_key":"0x00`,
	} {
		changed := strings.Replace(string(text), was, is, 1)
		require.NotEqual(t, string(text), changed, was)
		require.Error(t, json.Unmarshal([]byte(changed), &z), was)
	}
	_, err = DecodeSigned(append(x.Encode(), 0))
	require.ErrorIs(t, err, ErrInvalid)
	_, err = DecodeSigned(make([]byte, MaxSignedBytes+1))
	require.ErrorIs(t, err, ErrInvalid)
}

func TestStatementsThatNobodyMayApply(t *testing.T) {
	for name, change := range map[string]func(*Statement){
		"no chain": func(s *Statement) { s.Genesis = common.Hash{} }, "domain 0": func(s *Statement) { s.Number = 0 },
		"a first one with predecessor": func(s *Statement) { s.Previous[0]++ }, "a second one without": func(s *Statement) { s.Number = 2 },
		"first slot": func(s *Statement) { s.FirstSlot = s.Base.Slot }, "no seat": func(s *Statement) { s.Seats = nil },
		"a seat twice": func(s *Statement) { s.Seats[1] = s.Seats[0] }, "a vote key twice": func(s *Statement) { s.Seats[1].VoteKey = s.Seats[0].VoteKey },
		"another seal key": func(s *Statement) { s.Seats[1].SealKey[0]++ }, "lost and seated": func(s *Statement) { s.Lost = []common.Address{s.Seats[0].Account} },
		"lost twice": func(s *Statement) { s.Lost[1] = s.Lost[0] }, "no reason": func(s *Statement) { s.Reason = "" },
		"long reason": func(s *Statement) { s.Reason = strings.Repeat("x", MaxReasonBytes+1) }, "a reason that moves the cursor": func(s *Statement) { s.Reason = "a\x1b[2J" },
		"FC above base": func(s *Statement) { s.Base.Slot, s.Base.Height = 17, 8 }, "FC of prevotes": func(s *Statement) { s.Base.FC.Kind = block.Prevote },
		"no time": func(s *Statement) { s.Time = 0 }, "too many seats": func(s *Statement) { s.Seats = make([]Seat, MaxSeats+1) },
		"block 0 of another chain": func(s *Statement) { s.Base = Base{Block{Hash: common.Hash{1}, StateRoot: common.Hash{1}}, nil} },
	} {
		s := statement(t)
		change(s)
		require.ErrorIs(t, s.Check(), ErrInvalid, name)
	}
	s := statement(t)
	require.NoError(t, s.CheckPossession(chainID))
	require.ErrorIs(t, s.CheckPossession(chainID+1), ErrInvalid)
	s.Seats[1].Proof = s.Seats[0].Proof
	require.ErrorIs(t, s.CheckPossession(chainID), ErrInvalid)
}

func TestPairOfStatements(t *testing.T) {
	ps, _ := people(t, 4)
	a, other := statement(t), statement(t)
	other.FirstSlot++
	x := signedBy(t, a, ps[0], ps[1], ps[2])
	y := signedBy(t, other, ps[3], ps[2], ps[1])
	r, both := Relate(x, y)
	require.Equal(t, Contradict, r)
	require.ElementsMatch(t, []common.Address{ps[1].account, ps[2].account}, both)

	next := statement(t)
	next.Number, next.Previous = 2, a.Hash()
	z := signedBy(t, next, ps[0])
	for _, c := range []struct {
		a, b *Signed
		want Relation
	}{{x, z, Follows}, {z, x, Precedes}, {y, z, Apart}, {x, signedBy(t, a, ps[3]), Same}} {
		r, both = Relate(c.a, c.b)
		require.Equal(t, c.want, r)
		require.Empty(t, both)
	}
	foreign := statement(t)
	foreign.Genesis[0]++
	r, _ = Relate(x, signedBy(t, foreign, ps[0]))
	require.Equal(t, OtherChain, r)

	require.NoError(t, x.Merge(signedBy(t, a, ps[3], ps[0])))
	require.Len(t, x.Signatures, 4)
	require.ErrorIs(t, x.Merge(y), ErrInvalid)
}

func FuzzDecode(f *testing.F) {
	ps, s := people(f, 4)
	f.Add(signedBy(f, statement(f), ps[0], ps[1]).Encode())
	f.Add(reportOf(f, ps, s, 0, 18, 20).Encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		if x, err := DecodeSigned(b); err == nil {
			require.Equal(t, b, x.Encode())
		}
		if x, err := DecodeReport(b); err == nil {
			require.Equal(t, b, x.Encode())
		}
		var x Signed
		var r Report
		_ = x.UnmarshalJSON(b)
		_ = r.UnmarshalJSON(b)
	})
}
