package forge

import (
	"context"
	"crypto/ecdsa"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"math"
	"math/big"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/chain"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/transport/tcp"
)

// Chain is a chain of one producer that lives in virtual time: it makes histories as fast as the machine can. One
// goroutine uses it.
type Chain struct {
	gen     *genesis.Genesis
	store   *blockstore.Store
	chain   *chain.Chain
	machine *dpos.Machine
	keys    *signer.Local
	domain  block.Domain
	params  block.Parameters
	slot    uint64
	txs     []*types.Transaction // of the next block
	made    *block.Block         // by the tick in hand
}

// ChainID of the chains made here.
const ChainID = 71_338

// Options of a new chain.
type Options struct {
	Accounts []*ecdsa.PrivateKey // funded
	Blocks   int                 // at most so many will be made
	Members  []genesis.Member    // who may connect
	Segment  int64               // size of a segment file in bytes; 0: the store's default
}

// New makes a chain in a folder (blocks and state below it). Its genesis lies in the past by as many slots as there
// will be blocks, so that no block is in the future for whoever imports them.
func New(ctx context.Context, dir string, o Options) (*Chain, error) {
	keys, err := signer.Generate(rand.Reader)
	if err != nil {
		return nil, err
	}
	const slot = 500 * time.Millisecond
	past := time.Duration(o.Blocks+1000) * slot
	rich := new(big.Int).Mul(big.NewInt(1e9), big.NewInt(1e18))
	alloc := map[common.Address]*big.Int{keys.Account(): rich}
	for _, k := range o.Accounts {
		alloc[crypto.PubkeyToAddress(k.PublicKey)] = rich
	}
	members := o.Members
	if len(members) > 0 { // with a list of members the producer's node must be on it
		id, err := tcp.GenerateIdentity()
		if err != nil {
			return nil, err
		}
		members = append(members[:len(members):len(members)], genesis.Member{PeerID: string(id.ID()), Account: keys.Account(), Roles: genesis.RoleProducer})
	}
	gen, err := genesis.New(genesis.Options{
		ChainID: ChainID, GenesisTime: uint64(time.Now().Add(-past).Unix()), Slot: slot, TurnSlots: 1, //nolint:gosec // after 1970
		EpochBlocks: 1200, MaxReversible: 3600, MaxBlockBytes: 16 << 20, Admin: keys.Account(), Alloc: alloc, Members: members,
		Producers: []genesis.Producer{{Account: keys.Account(), BLSKey: keys.VoteKey(), Proof: keys.ProvePossession(ChainID)}},
	})
	if err != nil {
		return nil, err
	}
	f := &Chain{gen: gen, keys: keys, params: gen.Parameters()}
	if f.store, f.chain, err = open(ctx, dir, gen, o.Segment); err != nil {
		return nil, err
	}
	hash := f.chain.Genesis().Hash()
	f.domain = block.Domain{Genesis: hash}
	machine := dpos.DefaultConfig(f.params, keys.Account())
	machine.NeverSigned = true // the key is new
	f.machine, err = dpos.New(machine, dpos.GenesisRoot(hash, gen.Schedule()))
	return f, err
}

// Open opens store and chain below a folder, without logs and metrics.
func Open(ctx context.Context, dir string, gen *genesis.Genesis) (*blockstore.Store, *chain.Chain, error) {
	return open(ctx, dir, gen, 0)
}

func open(ctx context.Context, dir string, gen *genesis.Genesis, segment int64) (*blockstore.Store, *chain.Chain, error) {
	sc := blockstore.DefaultConfig()
	if segment > 0 {
		sc.SegmentBytes = segment
	}
	sc.Dir = filepath.Join(dir, "blocks")
	s, err := blockstore.Open(sc, nil, nil)
	if err != nil {
		return nil, nil, err
	}
	cc := chain.DefaultConfig()
	cc.Dir = filepath.Join(dir, "state")
	c, err := chain.Open(ctx, cc, gen, s, nil, nil)
	if err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return s, c, nil
}

// Close closes store and state.
func (f *Chain) Close() error { return errors.Join(f.chain.Close(), f.store.Close()) }

// Genesis is the chain's.
func (f *Chain) Genesis() *genesis.Genesis { return f.gen }

// LIB is the last irreversible block, as the store has it.
func (f *Chain) LIB() (height uint64, hash common.Hash) { return f.store.LIB() }

// Keys are the only producer's.
func (f *Chain) Keys() *signer.Local { return f.keys }

// Export writes all final blocks to a file of bornode export's form.
func (f *Chain) Export(ctx context.Context, w io.Writer) error {
	return f.store.Export(ctx, w, f.domain.Genesis, 1, math.MaxUint64, nil)
}

// Next makes the next block of these transactions, and what votes and certificates it brings.
func (f *Chain) Next(ctx context.Context, txs []*types.Transaction) (*block.Block, error) {
	f.slot++
	f.txs, f.made = txs, nil
	if err := f.machine.Step(dpos.Tick{Now: time.Duration(f.slot) * f.params.Slot()}); err != nil { //nolint:gosec // small
		return nil, err
	}
	for {
		rd, ok := f.machine.Ready()
		if !ok {
			break
		}
		events, err := f.do(ctx, rd)
		if err != nil {
			return nil, err
		}
		f.machine.Advance()
		for _, ev := range events {
			if err := f.machine.Step(ev); err != nil {
				return nil, err
			}
		}
	}
	if f.made == nil {
		return nil, fmt.Errorf("no block was due in slot %d", f.slot)
	}
	if len(f.made.Transactions) != len(txs) {
		return nil, fmt.Errorf("block %d took %d of %d transactions", f.made.Number(), len(f.made.Transactions), len(txs))
	}
	return f.made, nil
}

// do discharges duties as the driver would, at once.
func (f *Chain) do(ctx context.Context, rd dpos.Ready) (events []dpos.Event, err error) {
	if p := rd.Produce; p != nil {
		ev, err := f.produce(ctx, p)
		if err != nil {
			return nil, err
		}
		events = append(events, ev...)
	}
	for _, t := range rd.Tallies {
		sig, err := f.keys.SignVote(f.domain.VoteDigest(t.Link))
		if err != nil {
			return nil, err
		}
		c := block.NewCertificate(t.Link, t.Schedules, func(common.Address) bool { return true })
		agg, err := bls.Aggregate([][96]byte{sig})
		if err != nil {
			return nil, err
		}
		c.Aggregate = agg
		events = append(events, dpos.Tallied{ID: t.ID, Certificate: c})
	}
	if rd.Head != (common.Hash{}) {
		res, err := f.chain.SetHead(ctx, rd.Head)
		if err != nil {
			return nil, err
		}
		if res.Reason != nil {
			return nil, res.Reason
		}
		for _, h := range res.Executed {
			events = append(events, dpos.Executed{Hash: h})
		}
	}
	if x := rd.Final; x != nil {
		err := f.chain.Finalize(block.FinalUpdate{Hashes: x.Hashes, QC: x.QC, FC: x.FC, Root: x.Root.Encode(), Drop: rd.Dropped})
		if err != nil {
			return nil, err
		}
	}
	return events, nil
}

func (f *Chain) produce(ctx context.Context, p *dpos.Produce) ([]dpos.Event, error) {
	built, err := f.chain.Build(ctx, chain.BuildRequest{Parent: p.Parent, Slot: p.Slot, Coinbase: f.keys.Account(),
		QC: p.QC, FC: p.FC, EmptyOnly: p.EmptyOnly, Txs: &fixedTxs{f.txs}})
	if err != nil {
		return nil, err
	}
	seal, err := f.keys.SignSeal(f.domain.SealDigest(built.Block.Hash()))
	if err != nil {
		return nil, err
	}
	if err := f.chain.InsertBuilt(built, seal); err != nil {
		return nil, err
	}
	b := *built.Block
	sealed := &block.SealedHeader{Header: b.Header, Record: b.Record, Seal: seal}
	f.made = &block.Block{SealedHeader: sealed, Transactions: b.Transactions, Senders: b.Senders}
	return []dpos.Event{dpos.Built{Slot: p.Slot, OK: true}, dpos.HeaderEvent{Header: dpos.HeaderOf(sealed)}}, nil
}

// fixedTxs gives transactions in the order they were made.
type fixedTxs struct{ left []*types.Transaction }

func (t *fixedTxs) Next() *types.Transaction {
	if len(t.left) == 0 {
		return nil
	}
	return t.left[0]
}
func (t *fixedTxs) Shift() { t.left = t.left[1:] }
func (t *fixedTxs) Pop()   { t.left = nil } // refused: Next reports the block as short
