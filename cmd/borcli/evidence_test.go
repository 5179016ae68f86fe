package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

func itoa(n uint64) string { return strconv.FormatUint(n, 10) }

func mapValues(m map[string]string) []string { return slices.Collect(maps.Values(m)) }

func (s *simulatedChain) domain() block.Domain {
	s.t.Helper()
	var zero struct {
		Hash common.Hash `json:"hash"`
	}
	require.NoError(s.t, s.client.Call(&zero, "eth_getBlockByNumber", "0x0", false))
	return block.Domain{Genesis: zero.Hash}
}

func (s *simulatedChain) voteOf(o operator, l block.Link) *block.Vote {
	s.t.Helper()
	sig, err := o.signer.SignVote(s.domain().VoteDigest(l))
	require.NoError(s.t, err)
	return &block.Vote{Link: l, Voter: o.account, Signature: sig}
}

func (s *simulatedChain) evidenceFile(kind string, blocks []*block.SealedHeader, votes []*block.Vote) string {
	s.t.Helper()
	f := evidenceFile{Kind: kind}
	for _, h := range blocks {
		f.Blocks = append(f.Blocks, h.Encode())
	}
	for _, v := range votes {
		f.Votes = append(f.Votes, v.Encode())
	}
	b, err := json.Marshal(f)
	require.NoError(s.t, err)
	path := filepath.Join(s.t.TempDir(), "evidence.json")
	require.NoError(s.t, os.WriteFile(path, b, 0o600))
	return path
}

func TestEvidence(t *testing.T) {
	s := simulate(t)
	x, y, z := s.ops[1], s.ops[2], s.ops[3]
	root := common.Hash{7}
	two := []*block.SealedHeader{s.sealed(x, 40, root, "a"), s.sealed(x, 40, root, "b")}

	bad := func(code int, words, kind string, blocks []*block.SealedHeader, votes []*block.Vote) {
		t.Helper()
		s.refused(5, code, words, "producer", "evidence", "submit", s.evidenceFile(kind, blocks, votes))
	}
	bad(exitVerify, "are one", "seals", []*block.SealedHeader{two[0], two[0]}, nil)
	bad(exitVerify, "two slots", "seals", []*block.SealedHeader{two[0], s.sealed(x, 41, root, "b")}, nil)
	bad(exitVerify, "two producers", "seals", []*block.SealedHeader{two[0], s.sealed(y, 40, root, "b")}, nil)
	bad(exitVerify, "never registered", "seals", []*block.SealedHeader{s.sealed(s.ops[5], 40, root, "a"), s.sealed(s.ops[5], 40, root, "b")}, nil)
	bad(exitUsage, "two blocks", "seals", two[:1], nil)
	bad(exitUsage, "is unknown", "other", two, nil)
	s.refused(5, exitUsage, "no such file", "producer", "evidence", "submit", filepath.Join(s.dir, "none"))

	file := s.evidenceFile("seals", two, nil)
	var c charge
	s.json(5, &c, "producer", "evidence", "show", file)
	require.Equal(t, charge{Kind: "seals", Guilty: x.account, Slot: 40, Until: s.started + 20 + 100_000, Amount: ethers(100).String()}, c)
	require.Contains(t, s.do(5, "producer", "evidence", "submit", file), x.account.Hex()+" is guilty and lost 100 ether")
	p := s.info(1)
	require.Equal(t, "guilty", p.State)
	require.Contains(t, s.do(5, "producer", "show", x.account.Hex()), "guilty, has its seat until an epoch ends with ")
	require.Equal(t, ethers(100).String(), p.Stake)
	s.refused(5, exitRefused, "was found guilty before", "producer", "evidence", "submit", file)
	s.refused(1, exitRefused, "never produces again", "producer", "register")

	// Two prevotes.
	prevote := func(source, target block.Point) block.Link {
		return block.Link{Kind: block.Prevote, Source: source, Target: target}
	}
	source := block.Point{Slot: 3, Hash: common.Hash{3}}
	a, b := prevote(source, block.Point{Slot: 50, Hash: common.Hash{1}}), prevote(source, block.Point{Slot: 50, Hash: common.Hash{2}})
	bad(exitVerify, "not prevotes on two blocks", "prevotes", nil, []*block.Vote{s.voteOf(y, a), s.voteOf(y, a)})
	bad(exitUsage, "two producers", "prevotes", nil, []*block.Vote{s.voteOf(y, a), s.voteOf(z, b)})
	forged := s.voteOf(z, b)
	forged.Voter = y.account
	bad(exitVerify, "vote 1 is not signed", "prevotes", nil, []*block.Vote{s.voteOf(y, a), forged})
	require.Contains(t, s.do(5, "producer", "evidence", "submit", s.evidenceFile("prevotes", nil, []*block.Vote{s.voteOf(y, a), s.voteOf(y, b)})), "is guilty")

	// A precommit, and a prevote across it.
	low := s.sealed(z, 60, root, "low")
	crossed := s.sealed(z, 62, low.Hash(), "crossed")
	mid := s.sealed(y, 64, low.Hash(), "mid")
	path := []*block.SealedHeader{s.sealed(x, 66, mid.Hash(), "top"), mid, low}
	commit := block.Link{Kind: block.Precommit, Source: crossed.Point(), Target: crossed.Point()}
	across := prevote(low.Point(), path[0].Point())
	votes := []*block.Vote{s.voteOf(z, commit), s.voteOf(z, across)}
	bad(exitVerify, "has to pass slot 62", "cross", path[:2], votes)
	bad(exitVerify, "is asked for there", "cross", path[1:], votes)
	bad(exitVerify, "not a precommit and a prevote", "cross", path, []*block.Vote{votes[1], votes[0]})
	require.Contains(t, s.do(5, "producer", "evidence", "submit", s.evidenceFile("cross", path, votes)), z.account.Hex()+" is guilty")
}

// Two nodes on two branches: the producer that sealed a block on each in one slot is found, and convicted by the file.
func TestFindEvidence(t *testing.T) {
	s := simulate(t)
	other := *s // another node's chain
	srv := httptest.NewServer(&other)
	defer srv.Close()
	branch := func(salt string) (list []*block.SealedHeader) {
		parent := common.Hash{1}
		for i, slot := range []uint64{0, 3, 7, 8, 12, 20} {
			by := s.ops[i%4]
			if slot == 8 && salt == "b" {
				by = s.ops[1] // the slot of another: no evidence
			}
			h := s.sealed(by, slot, parent, salt)
			h.Header.Number.SetUint64(uint64(i))
			seal, err := by.signer.SignSeal(s.domain().SealDigest(h.Header.Hash()))
			require.NoError(t, err)
			h = &block.SealedHeader{Header: h.Header, Record: h.Record, Seal: seal}
			list, parent = append(list, h), h.Hash()
		}
		return list
	}
	s.records, other.records = branch("a"), branch("b")
	out := filepath.Join(t.TempDir(), "found.json")
	find := func(slot string) outcome {
		return s.as(5, "producer", "evidence", "find", "--slot", slot, "--other", srv.URL, "--out", out)
	}
	for _, slot := range []string{"8", "9", "21", "4"} {
		o := find(slot)
		require.Equal(t, exitNotFound, o.code, "%s: %s", slot, o.err)
		require.NoFileExists(t, out)
	}
	o := find("12")
	require.Equal(t, exitOK, o.code, o.err)
	require.Contains(t, o.out, s.ops[0].account.Hex()+" sealed two blocks of slot 12")
	require.Contains(t, s.do(5, "producer", "evidence", "submit", out), s.ops[0].account.Hex()+" is guilty")
	require.Equal(t, exitUsage, find("20").code, "a file is not overwritten")
	s.refused(5, exitUsage, "give --slot", "producer", "evidence", "find")
}

func FuzzParseEvidence(f *testing.F) {
	f.Add([]byte(`{"kind":"seals","blocks":["0x","0x"]}`))
	f.Add([]byte(`{"kind":"prevotes","votes":["0xc0","0xc0"],"key":"0x00"}`))
	f.Add([]byte(fmt.Sprintf(`{"kind":"cross","blocks":["0x%s"]}`, hex.EncodeToString(make([]byte, 40)))))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := parseEvidence(b)
		if err != nil {
			require.ErrorIs(t, err, errEvidence)
			return
		}
		_, _, _ = e.guilty(block.Domain{})
		_ = e.verifyVotes(block.Domain{}, block.BLSKey{})
		_, _ = e.calls(block.BLSKey{})
	})
}
