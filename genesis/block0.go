package genesis

import (
	"fmt"
	"math/big"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/params"
	"github.com/ethereum/go-ethereum/rlp"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
)

// Fork names the rules of the EVM from block 0 on.
const Fork = "osaka"

const encodingPrefix = "bornode-genesis-1"

// ChainConfig is go-ethereum's view of the chain: Osaka from genesis.
func (g *Genesis) ChainConfig() *params.ChainConfig {
	zero := func() *big.Int { return new(big.Int) }
	at0 := func() *uint64 { return new(uint64) }
	return &params.ChainConfig{
		ChainID:        new(big.Int).SetUint64(g.o.ChainID),
		HomesteadBlock: zero(), EIP150Block: zero(), EIP155Block: zero(), EIP158Block: zero(), ByzantiumBlock: zero(),
		ConstantinopleBlock: zero(), PetersburgBlock: zero(), IstanbulBlock: zero(), MuirGlacierBlock: zero(),
		BerlinBlock: zero(), LondonBlock: zero(), ArrowGlacierBlock: zero(), GrayGlacierBlock: zero(), MergeNetsplitBlock: zero(),
		ShanghaiTime: at0(), CancunTime: at0(), PragueTime: at0(), OsakaTime: at0(),
		TerminalTotalDifficulty: zero(),
		BlobScheduleConfig:      &params.BlobScheduleConfig{Cancun: params.DefaultCancunBlobConfig, Prague: params.DefaultPragueBlobConfig},
	}
}

// systemAlloc is the standard code of EIP-4788, 2935, 7002 and 7251: every block calls them.
func systemAlloc() types.GenesisAlloc {
	return types.GenesisAlloc{
		params.BeaconRootsAddress:        {Nonce: 1, Code: params.BeaconRootsCode, Balance: new(big.Int)},
		params.HistoryStorageAddress:     {Nonce: 1, Code: params.HistoryStorageCode, Balance: new(big.Int)},
		params.WithdrawalQueueAddress:    {Nonce: 1, Code: params.WithdrawalQueueCode, Balance: new(big.Int)},
		params.ConsolidationQueueAddress: {Nonce: 1, Code: params.ConsolidationQueueCode, Balance: new(big.Int)},
	}
}

// producersGenesis is what the Producers contract starts with.
func (g *Genesis) producersGenesis() contracts.ProducersGenesis {
	o, s := &g.o, &g.o.Settings
	p := contracts.ProducersGenesis{
		GenesisTime: o.GenesisTime, SlotMillis: millis(o.Slot), EpochBlocks: o.EpochBlocks, Seats: s.Seats,
		MinProducers: uint16(o.MinProducers), JailTurns: s.JailTurns, SlashPercent: s.SlashPercent, //nolint:gosec // at most MaxSeats
		EvidenceSeconds: seconds(s.EvidenceWindow), WithdrawSeconds: seconds(s.WithdrawDelay), UnjailSeconds: seconds(s.UnjailDelay),
		MinStake: s.MinStake,
	}
	for i := range o.Producers {
		x := &o.Producers[i]
		p.Producers = append(p.Producers, contracts.ProducerGenesis{Account: x.Account, Key: x.BLSKey, Stake: x.Stake})
	}
	return p
}

// Alloc is the state of block 0: the file's accounts, the standard system code and the system contracts. The Producers
// contract holds the producers' stakes. The caller may change the result.
func (g *Genesis) Alloc() types.GenesisAlloc {
	alloc := systemAlloc()
	p := g.producersGenesis()
	m := contracts.MembersGenesis{Admin: g.o.Admin, ProposalSeconds: seconds(g.o.ProposalTime)}
	for _, x := range g.o.Members {
		m.Nodes = append(m.Nodes, contracts.MemberEntry{PeerID: x.PeerID, Account: x.Account, Roles: uint8(x.Roles)})
	}
	alloc[ProducersAddress] = types.Account{Nonce: 1, Code: contracts.ProducersCode(), Storage: contracts.ProducersStorage(p), Balance: p.TotalStake()}
	alloc[MembersAddress] = types.Account{Nonce: 1, Code: contracts.MembersCode(), Storage: contracts.MembersStorage(m), Balance: new(big.Int)}
	alloc[TopicsAddress] = types.Account{Nonce: 1, Code: contracts.TopicsCode(), Balance: new(big.Int)}
	for a, x := range g.o.Accounts {
		if balanceText(x.Balance) == "0" && x.Nonce == 0 && len(x.Code) == 0 && len(x.Storage) == 0 {
			continue // no such thing as an empty account in the state
		}
		balance := new(big.Int)
		if x.Balance != nil {
			balance.Set(x.Balance)
		}
		account := types.Account{Balance: balance, Nonce: x.Nonce, Code: x.Code}
		if len(x.Storage) > 0 {
			account.Storage = make(map[common.Hash]common.Hash, len(x.Storage))
			for k, v := range x.Storage {
				account.Storage[k] = v
			}
		}
		alloc[a] = account
	}
	return alloc
}

type settingsWire struct {
	Seats, JailTurns                                uint16
	SlashPercent                                    uint8
	EvidenceSeconds, WithdrawSeconds, UnjailSeconds uint64
	MinStake                                        *big.Int
}

type memberWire struct {
	PeerID  string
	Account common.Address
	Roles   uint8
}

type wire struct {
	Prefix, Fork                                                                     string
	ChainID, GenesisTime, SlotMillis, TurnSlots, EpochBlocks, MaxReversible, MinProd uint64
	MaxBlockBytes, GasLimit                                                          uint64
	BaseFeeFixed                                                                     bool
	BaseFee                                                                          uint64
	Patience                                                                         bool
	Admin                                                                            common.Address
	ProposalSeconds                                                                  uint64
	Settings                                                                         settingsWire
	Producers                                                                        []Producer
	Members                                                                          []memberWire
	StateRoot                                                                        common.Hash
	// ClockErrorMillis is 0 for the usual max_clock_error, so that networks from before that key keep their block 0.
	ClockErrorMillis uint64 `rlp:"optional"`
	// Recovery is nil for the usual recovery keys, likewise.
	Recovery *RecoveryKeys `rlp:"optional"`
}

// encode is the canonical encoding of all parameters but upgrades (see the package comment).
func (g *Genesis) encode(root common.Hash) ([]byte, error) {
	o, s, p := &g.o, &g.o.Settings, g.Parameters()
	w := wire{
		encodingPrefix, Fork, p.ChainID, p.GenesisTime, p.SlotMillis, p.TurnSlots, p.EpochBlocks, p.MaxReversible, p.MinProducers,
		p.MaxBlockBytes, p.GasLimit, p.BaseFeeFixed, p.BaseFee, p.Patience, o.Admin, seconds(o.ProposalTime),
		settingsWire{s.Seats, s.JailTurns, s.SlashPercent, seconds(s.EvidenceWindow), seconds(s.WithdrawDelay), seconds(s.UnjailDelay), s.MinStake},
		o.Producers, nil, root, 0, nil,
	}
	if !o.hasUsualRecovery() {
		w.Recovery = &o.Recovery
	}
	if o.MaxClockError != o.usualClockError() {
		w.ClockErrorMillis = p.ClockErrorMillis
	}
	for _, m := range o.Members {
		w.Members = append(w.Members, memberWire{m.PeerID, m.Account, uint8(m.Roles)})
	}
	b, err := rlp.EncodeToBytes(&w)
	if err != nil {
		return nil, fmt.Errorf("encode genesis parameters: %w", err)
	}
	return b, nil
}

// Block is block 0: slot 0, no transactions, no seal.
func (g *Genesis) Block() (*block.Block, error) {
	p := g.Parameters()
	eth := core.Genesis{
		Config: g.ChainConfig(), Timestamp: p.GenesisTime, GasLimit: p.GasLimit, Difficulty: new(big.Int),
		BaseFee: new(big.Int).SetUint64(p.BaseFee), Alloc: g.Alloc(),
	}
	h := eth.ToBlock().Header()
	b, err := g.encode(h.Root)
	if err != nil {
		return nil, err
	}
	r := &block.Record{Version: block.RecordVersion, BodyDigest: crypto.Keccak256Hash(b)}
	h.Extra = r.Hash().Bytes()
	return &block.Block{SealedHeader: &block.SealedHeader{Header: h, Record: r}, Transactions: types.Transactions{}, Senders: []common.Address{}}, nil
}

type pair[K any, V any] struct {
	Key   K
	Value V
}

type upgradeWire struct {
	Height     uint64
	Name, Fork string
	Parameters []pair[string, string]
	Code       []pair[common.Address, []byte]
	Withdrawn  *common.Hash `rlp:"optional"`
}

func (u *Upgrade) wire() upgradeWire {
	w := upgradeWire{Height: u.Height, Name: u.Name, Fork: u.Fork}
	for k, v := range u.Parameters {
		w.Parameters = append(w.Parameters, pair[string, string]{k, v})
	}
	slices.SortFunc(w.Parameters, func(a, b pair[string, string]) int { return strings.Compare(a.Key, b.Key) })
	for k, v := range u.Code {
		w.Code = append(w.Code, pair[common.Address, []byte]{k, v})
	}
	slices.SortFunc(w.Code, func(a, b pair[common.Address, []byte]) int { return a.Key.Cmp(b.Key) })
	if u.Withdrawn != (common.Hash{}) {
		w.Withdrawn = &u.Withdrawn
	}
	return w
}

// digest of our own plain values, whose encoding cannot fail.
func digest(v any) common.Hash {
	b, err := rlp.EncodeToBytes(v)
	if err != nil {
		panic(fmt.Sprintf("genesis: encode upgrades: %v", err))
	}
	return crypto.Keccak256Hash(b)
}

// Digest is what producers vote for: keccak256 of RLP [height, name, fork, [[parameter, value] ...],
// [[address, code] ...]], the inner lists sorted, values as the file writes them. Entries that are Withdrawn have the
// digest that was voted for behind these, and nobody votes for them.
func (u *Upgrade) Digest() common.Hash { return digest(u.wire()) }

// UpgradesDigest is keccak256 of the RLP list of the upgrades, each encoded as in Upgrade.Digest.
func (g *Genesis) UpgradesDigest() common.Hash {
	list := make([]upgradeWire, len(g.o.Upgrades))
	for i := range g.o.Upgrades {
		list[i] = g.o.Upgrades[i].wire()
	}
	return digest(list)
}
