package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
)

const evidenceHelp = `Submit evidence, which slashes the producer it convicts. Anybody may. FILE is JSON:

  {"kind": "seals", "blocks": [SEALED, SEALED]}
  {"kind": "prevotes", "votes": [VOTE, VOTE], "key": KEY}
  {"kind": "cross", "votes": [PRECOMMIT, PREVOTE], "blocks": [SEALED, ...], "key": KEY}

SEALED is an encoded sealed header (bor_getRecord gives it as raw), VOTE an encoded vote, both in hexadecimal as
docs/wire.md has them, KEY the 48 bytes of the voter's BLS key (default: the one registered now). The blocks of "cross"
lead from the prevote's block, by parents, down to the first that is not above the precommit's slot.`

// Kinds of evidence.
const (
	evidenceSeals    = "seals"
	evidencePrevotes = "prevotes"
	evidenceCross    = "cross"
)

// evidenceFile is the JSON form.
type evidenceFile struct {
	Kind   string          `json:"kind"`
	Blocks []hexutil.Bytes `json:"blocks,omitempty"`
	Votes  []hexutil.Bytes `json:"votes,omitempty"`
	Key    hexutil.Bytes   `json:"key,omitempty"`
}

// evidence is what a file says, decoded.
type evidence struct {
	kind   string
	blocks []*block.SealedHeader
	votes  []*block.Vote
	key    *block.BLSKey // nil: the one registered now
}

var errEvidence = errors.New("no evidence")

func badEvidence(format string, args ...any) error {
	return fmt.Errorf("%w: %w", errEvidence, fmt.Errorf(format, args...))
}

// parseEvidence reads a file of evidence. Errors wrap errEvidence.
func parseEvidence(b []byte) (*evidence, error) {
	var f evidenceFile
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, badEvidence("%w", err)
	}
	e := &evidence{kind: f.Kind}
	for i, raw := range f.Blocks {
		h, err := block.DecodeSealedHeader(raw)
		if err != nil {
			return nil, badEvidence("block %d: %w", i, err)
		}
		e.blocks = append(e.blocks, h)
	}
	for i, raw := range f.Votes {
		v, err := block.DecodeVote(raw)
		if err != nil {
			return nil, badEvidence("vote %d: %w", i, err)
		}
		e.votes = append(e.votes, v)
	}
	if len(f.Key) > 0 {
		if len(f.Key) != len(block.BLSKey{}) {
			return nil, badEvidence("the key has %d bytes, a BLS key has %d", len(f.Key), len(block.BLSKey{}))
		}
		key := block.BLSKey(f.Key)
		e.key = &key
	}
	return e, e.form()
}

// form checks that the parts are there that the kind asks for.
func (e *evidence) form() error {
	switch e.kind {
	case evidenceSeals:
		if len(e.blocks) != 2 || len(e.votes) != 0 {
			return badEvidence("two blocks and no votes prove two seals, the file has %d and %d", len(e.blocks), len(e.votes))
		}
	case evidencePrevotes:
		if len(e.votes) != 2 || len(e.blocks) != 0 {
			return badEvidence("two votes and no blocks prove two prevotes, the file has %d and %d", len(e.votes), len(e.blocks))
		}
	case evidenceCross:
		if len(e.votes) != 2 || len(e.blocks) == 0 {
			return badEvidence("two votes and the blocks between prove a precommit and a prevote across it, the file has %d and %d", len(e.votes), len(e.blocks))
		}
	default:
		return badEvidence("kind %q is unknown: use %s, %s or %s", e.kind, evidenceSeals, evidencePrevotes, evidenceCross)
	}
	if len(e.votes) == 2 && e.votes[0].Voter != e.votes[1].Voter {
		return badEvidence("the votes are of two producers, %s and %s", e.votes[0].Voter, e.votes[1].Voter)
	}
	return nil
}

// guilty checks the rule that the evidence says was broken, and tells by whom and in which slot. Seals are verified
// here; votes are by verifyVotes, which needs the key.
func (e *evidence) guilty(domain block.Domain) (who common.Address, slot uint64, err error) {
	if e.kind == evidenceSeals {
		return e.twoSeals(domain)
	}
	a, b := e.votes[0], e.votes[1]
	if e.kind == evidencePrevotes {
		if a.Kind != block.Prevote || b.Kind != block.Prevote || a.Target.Slot != b.Target.Slot || a.Target == b.Target {
			return who, 0, badEvidence("the votes are not prevotes on two blocks of one slot")
		}
		return a.Voter, a.Target.Slot, nil
	}
	if a.Kind != block.Precommit || b.Kind != block.Prevote || b.Source.Slot >= a.Target.Slot || a.Target.Slot >= b.Target.Slot {
		return who, 0, badEvidence("the votes are not a precommit and a prevote whose source lies below and whose target lies above the precommit's slot")
	}
	want := b.Target.Hash
	for i, h := range e.blocks {
		if h.Hash() != want {
			return who, 0, badEvidence("block %d of the path is %s, %s is asked for there", i, h.Hash(), want)
		}
		want = h.Parent()
	}
	last := e.blocks[len(e.blocks)-1]
	if last.Slot() > a.Target.Slot || last.Hash() == a.Target.Hash {
		return who, 0, badEvidence("the path ends in slot %d and has to pass slot %d without the precommit's block", last.Slot(), a.Target.Slot)
	}
	return a.Voter, b.Target.Slot, nil
}

func (e *evidence) twoSeals(domain block.Domain) (who common.Address, slot uint64, err error) {
	a, b := e.blocks[0], e.blocks[1]
	if a.Hash() == b.Hash() {
		return who, 0, badEvidence("the two blocks are one, %s", a.Hash())
	}
	if a.Slot() != b.Slot() {
		return who, 0, badEvidence("the blocks are of two slots, %d and %d", a.Slot(), b.Slot())
	}
	for _, h := range e.blocks {
		by, err := h.Signer(domain)
		if err != nil {
			return who, 0, badEvidence("%w", err)
		}
		if who != (common.Address{}) && by != who {
			return who, 0, badEvidence("the blocks were sealed by two producers, %s and %s", who, by)
		}
		who = by
	}
	return who, a.Slot(), nil
}

func (e *evidence) verifyVotes(domain block.Domain, key block.BLSKey) error {
	for i, v := range e.votes {
		digest := domain.VoteDigest(v.Link)
		if !bls.Verify(key, digest[:], v.Signature) {
			return badEvidence("vote %d is not signed by the key %s for this chain", i, hexutil.Encode(key[:]))
		}
	}
	return nil
}

// calls encodes the evidence for the contract: one transaction each, in this order.
func (e *evidence) calls(key block.BLSKey) ([][]byte, error) {
	headers := make([]contracts.EvidenceHeader, len(e.blocks))
	for i, h := range e.blocks {
		header, err := rlp.EncodeToBytes(h.Header)
		if err != nil {
			return nil, err
		}
		record, err := rlp.EncodeToBytes(h.Record)
		if err != nil {
			return nil, err
		}
		headers[i] = contracts.EvidenceHeader{Header: header, Record: record, Seal: h.Seal[:]}
	}
	if e.kind == evidenceSeals {
		data, err := contracts.SealEvidenceCall(headers[0], headers[1])
		return [][]byte{data}, err
	}
	raw, err := bls.UncompressG1(key)
	if err != nil {
		return nil, badEvidence("the key is no point of the curve: %w", err)
	}
	votes := make([]contracts.EvidenceVote, len(e.votes))
	for i, v := range e.votes {
		signature, err := bls.UncompressG2(v.Signature)
		if err != nil {
			return nil, badEvidence("signature of vote %d: %w", i, err)
		}
		votes[i] = contracts.EvidenceVote{Kind: uint8(v.Kind), SourceSlot: v.Source.Slot, SourceHash: v.Source.Hash,
			TargetSlot: v.Target.Slot, TargetHash: v.Target.Hash, Signature: signature}
	}
	if e.kind == evidencePrevotes {
		data, err := contracts.PrevotesEvidenceCall(raw, votes[0], votes[1])
		return [][]byte{data}, err
	}
	return contracts.CrossEvidenceCalls(raw, votes[0], votes[1], headers)
}

// charge is evidence that was checked against the chain.
type charge struct {
	Kind    string         `json:"kind"`
	Guilty  common.Address `json:"guilty"`
	Slot    uint64         `json:"slot"`
	Until   uint64         `json:"usableUntil"` // Unix seconds
	Before  bool           `json:"foundGuiltyBefore"`
	Amount  string         `json:"slashed"` // wei, about what submitting it takes
	now     uint64
	calls   [][]byte
	percent uint8
	amount  *big.Int
}

// readEvidence reads a file and checks it as far as that is possible before the contract does.
func (a *app) readEvidence(ctx context.Context, path string) (*charge, error) {
	b, err := readFile(path, maxEvidenceBytes)
	if err != nil {
		return nil, fail(exitUsage, "%w", err)
	}
	e, err := parseEvidence(b)
	if err != nil {
		return nil, fail(exitUsage, "%s: %w", path, err)
	}
	zero, err := a.genesisHash(ctx)
	if err != nil {
		return nil, err
	}
	domain := block.Domain{Genesis: zero}
	who, slot, err := e.guilty(domain)
	if err != nil {
		return nil, fail(exitVerify, "%s: %w", path, err)
	}
	p, err := a.producer(ctx, who)
	if err != nil {
		return nil, err
	}
	if p.candidate.Key == 0 {
		return nil, fail(exitVerify, "%s: %s never registered as a producer", path, who)
	}
	key := block.BLSKey(p.Key)
	if e.key != nil {
		key = *e.key
	}
	if len(e.votes) > 0 {
		if err := e.verifyVotes(domain, key); err != nil {
			return nil, fail(exitVerify, "%s: %w; if the producer has registered another key since, name the old one as key", path, err)
		}
	}
	calls, err := e.calls(key)
	if err != nil {
		return nil, fail(exitUsage, "%s: %w", path, err)
	}
	s := p.settings
	c := &charge{Kind: e.kind, Guilty: who, Slot: slot, Until: s.GenesisTime + slot*s.SlotMillis/1000 + s.EvidenceSeconds, Before: p.candidate.Guilty,
		now: p.now, calls: calls, percent: s.SlashPercent}
	c.amount = new(big.Int).Add(p.account.Stake, p.account.Leaving)
	c.amount.Div(c.amount.Mul(c.amount, big.NewInt(int64(c.percent))), big.NewInt(100))
	c.Amount = c.amount.String()
	return c, nil
}

func (c *charge) table(w io.Writer) {
	rows := []pair{{"kind", c.Kind}, {"guilty", c.Guilty.Hex()}, {"slot", fmt.Sprint(c.Slot)}, {"usable until", when(c.Until, c.now)},
		{"slashes", fmt.Sprintf("%s, %d %% of its own stake", ether(c.amount), c.percent)}, {"transactions", fmt.Sprint(len(c.calls))}}
	if c.Before {
		rows = append(rows, pair{"but", "it was found guilty before, so there is nothing left to submit"})
	}
	lines(w, rows...)
}

func (a *app) showEvidence(ctx context.Context, path string) error {
	c, err := a.readEvidence(ctx, path)
	if err != nil {
		return err
	}
	return a.show(c, c.table)
}

func (a *app) submitEvidence(ctx context.Context, path string) error {
	c, err := a.readEvidence(ctx, path)
	switch {
	case err != nil:
		return err
	case c.Before:
		return fail(exitRefused, "%s was found guilty before: nothing is to be done", c.Guilty)
	case c.Until < c.now:
		return fail(exitRefused, "the evidence against %s is too old: it could be used until %s", c.Guilty, when(c.Until, c.now))
	}
	for i, data := range c.calls[:len(c.calls)-1] {
		if _, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: data, What: fmt.Sprintf("part %d of %d of the headers that lead down", i+1, len(c.calls)-1)}); err != nil {
			return err
		}
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: c.calls[len(c.calls)-1],
		What: fmt.Sprintf("submit evidence (%s, slot %d) against %s", c.Kind, c.Slot, c.Guilty)})
	if err != nil {
		return err
	}
	return a.tell(s, "%s", slashedText(s, c))
}

// slashedText tells what the contract took.
func slashedText(s *sent, c *charge) string {
	if s.Receipt == nil {
		return fmt.Sprintf("borcli producer show %s tells what becomes of it", c.Guilty)
	}
	for _, l := range s.Receipt.Logs {
		if l.Address != contracts.ProducersAddress {
			continue
		}
		if x, err := producersABI.UnpackSlashedEvent(l); err == nil {
			return fmt.Sprintf("%s is guilty and lost %s; its seat goes at the end of an epoch, unless fewer than minProducers others are fit then (borcli producer show %s)", x.Account, ether(x.Amount), x.Account)
		}
	}
	return "the contract took it"
}

// sealedAt is the sealed header of a slot on a node's chain; nil if its chain has none.
func (a *app) sealedAt(ctx context.Context, slot uint64) (*block.SealedHeader, error) {
	get := func(ref any) (*block.SealedHeader, error) {
		var r *struct {
			Raw hexutil.Bytes `json:"raw"`
		}
		if err := a.ask(ctx, &r, "bor_getRecord", ref); err != nil || r == nil {
			return nil, err
		}
		h, err := block.DecodeSealedHeader(r.Raw)
		if err != nil {
			return nil, fail(exitOther, "the node at %s gives a record that cannot be read: %w", redacted(a.Node), err)
		}
		return h, nil
	}
	head, err := get("latest")
	if err != nil || head == nil || head.Slot() < slot {
		return nil, err
	}
	low, high := uint64(0), head.Number() // slots rise with heights
	for low < high {
		middle := low + (high-low)/2
		h, err := get(hexutil.Uint64(middle))
		if err != nil {
			return nil, err
		}
		if h == nil {
			return nil, nil //nolint:nilnil // its chain is shorter meanwhile
		}
		if h.Slot() < slot {
			low = middle + 1
		} else {
			high = middle
		}
	}
	h, err := get(hexutil.Uint64(low))
	if err != nil || h == nil || h.Slot() != slot {
		return nil, err
	}
	return h, nil
}

// findEvidence compares the nodes' blocks of one slot.
func (a *app) findEvidence(ctx context.Context, slot uint64, others []string, out string) error {
	if len(others) == 0 || out == "" || slot == 0 {
		return fail(exitUsage, "give --slot, the other nodes with --other, and the file to write with --out")
	}
	first, err := a.sealedAt(ctx, slot)
	if err != nil {
		return err
	}
	zero, err := a.genesisHash(ctx)
	if err != nil {
		return err
	}
	for _, node := range others {
		b := &app{surroundings: a.surroundings, settings: a.settings, flags: a.flags}
		b.Node = node
		second, err := b.sealedAt(ctx, slot)
		b.close()
		if err != nil {
			return err
		}
		if first == nil {
			first = second
			continue
		}
		e := &evidence{kind: evidenceSeals, blocks: []*block.SealedHeader{first, second}}
		if second == nil || first.Hash() == second.Hash() {
			continue
		}
		who, _, err := e.guilty(block.Domain{Genesis: zero})
		if err != nil {
			a.note("the blocks of slot %d differ at %s but are no evidence: %v", slot, redacted(node), err)
			continue
		}
		return a.writeEvidence(out, e, who, slot)
	}
	return fail(exitNotFound, "the nodes have no two blocks of slot %d by one producer on their chains", slot)
}

func (a *app) writeEvidence(out string, e *evidence, who common.Address, slot uint64) error {
	f := evidenceFile{Kind: e.kind}
	for _, h := range e.blocks {
		f.Blocks = append(f.Blocks, h.Encode())
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	file, err := os.OpenFile(out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fail(exitUsage, "--out: %w", err)
	}
	if _, err := file.Write(append(b, '\n')); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := file.Close(); err != nil {
		return err
	}
	return a.show(map[string]any{"file": out, "guilty": who, "slot": slot}, func(w io.Writer) {
		fmt.Fprintf(w, "%s sealed two blocks of slot %d: %s; submit it with: borcli producer evidence submit %s\n", who, slot, out, out)
	})
}
