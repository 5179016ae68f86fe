package genesis

import (
	"errors"
	"fmt"
	"math/big"
	"os"
	"slices"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/recovery"
)

// ErrInvalid is wrapped by every error about what a genesis file says.
var ErrInvalid = errors.New("genesis")

// Where the system contracts live.
var (
	ProducersAddress = contracts.ProducersAddress
	MembersAddress   = contracts.MembersAddress
	TopicsAddress    = contracts.TopicsAddress
)

// Fee modes.
const (
	FeesFixed  = "fixed"  // the base fee never changes; 0 is allowed
	FeesMarket = "market" // EIP-1559, with the base fee as floor
)

// Fees says what gas costs.
type Fees struct {
	Mode    string
	BaseFee uint64 // wei
}

// ProducerSettings are the rules of the Producers contract.
type ProducerSettings struct {
	Seats          uint16 // of a schedule at most
	JailTurns      uint16 // empty turns in one epoch that send a producer to jail
	SlashPercent   uint8  // of a guilty producer's own stake
	EvidenceWindow time.Duration
	WithdrawDelay  time.Duration // longer than EvidenceWindow
	UnjailDelay    time.Duration
	MinStake       *big.Int // wei, own stake of a candidate
}

// Producer is a candidate from the start; the first Seats of them are the first schedule.
type Producer struct {
	Account common.Address
	BLSKey  [48]byte
	Proof   [96]byte // signature by BLSKey on block.PossessionDigest
	Stake   *big.Int // wei, given to the Producers contract in its name, all of it as votes for itself
}

// Roles of a node, bit by bit.
type Roles uint8

const (
	RoleProducer = Roles(contracts.RoleProducer)
	RoleObserver = Roles(contracts.RoleObserver)
	RoleBroker   = Roles(contracts.RoleBroker)
)

// Member is a node that may connect from the start.
type Member struct {
	PeerID  string         // libp2p peer id, text form
	Account common.Address // needed for a producer's node, else it may be zero
	Roles   Roles
}

// Account is one entry of alloc. A plain amount in the file is an account with that balance.
type Account struct {
	Balance *big.Int // wei; nil is 0
	Nonce   uint64
	Code    hexutil.Bytes
	Storage map[common.Hash]common.Hash
}

// Upgrade describes what changes from a height on. The description alone has no effect: the upgrade is in force only
// if the producers voted for its Digest. A node that has no description of a voted upgrade stops before its height.
type Upgrade struct {
	Height     uint64
	Name       string
	Fork       string                           // EVM fork, empty: unchanged
	Parameters map[string]string                // of those that Votable names, as EncodeParameter reads them
	Code       map[common.Address]hexutil.Bytes // of system contracts
	// Withdrawn makes the entry no description: the producers voted for this digest under Height and Name, and the node
	// takes that vote as withdrawn. Operators of a quorum agree on it outside the chain, for a digest that nobody can
	// describe: without it the chain ends there. Fork, Parameters and Code are empty then.
	Withdrawn common.Hash
}

// Genesis is a checked genesis file. It never changes after it was made.
type Genesis struct {
	o Options
}

// RecoveryKeys are who may say, outside the chain, how it goes on when more producers are lost than its rules can bear.
type RecoveryKeys struct {
	Keys      []common.Address
	Threshold uint64 // how many of them must sign: more than two thirds, so that over a third signed both of two statements
}

// Options are all that a genesis file says. In New a zero value stands for the usual one where there is one.
type Options struct {
	ChainID       uint64
	GenesisTime   uint64 // Unix seconds; slot 0 begins here
	Slot          time.Duration
	TurnSlots     uint64
	EpochBlocks   uint64
	MaxReversible uint64
	MinProducers  uint64
	MaxBlockBytes uint64
	GasLimit      uint64
	Fees          Fees
	Impatient     bool          // switches rule 8's patience off
	MaxClockError time.Duration // rule 12; 100 ms, or a slot if that is shorter
	Settings      ProducerSettings
	ProposalTime  time.Duration // how long a proposal to Members stays open
	Admin         common.Address
	Recovery      RecoveryKeys // rule 13; the producers' accounts, and the least threshold
	Producers     []Producer
	Members       []Member
	Alloc         map[common.Address]*big.Int // accounts that only have a balance
	Accounts      map[common.Address]Account  // others
	Upgrades      []Upgrade
}

func orDefault[T comparable](v *T, usual T) {
	var zero T
	if *v == zero {
		*v = usual
	}
}

// New makes a genesis of options: zero values get their usual ones, then everything is checked as if it were read.
func New(o Options) (*Genesis, error) {
	n := uint64(len(o.Producers))
	orDefault(&o.Slot, 500*time.Millisecond)
	orDefault(&o.TurnSlots, 12)
	orDefault(&o.EpochBlocks, 1200)
	orDefault(&o.MaxReversible, 3600)
	orDefault(&o.MinProducers, min(n, 4))
	orDefault(&o.MaxBlockBytes, 4<<20)
	orDefault(&o.GasLimit, 300_000_000)
	orDefault(&o.Fees.Mode, FeesFixed)
	s := &o.Settings
	orDefault(&s.Seats, uint16(min(max(n, 21), MaxSeats))) //nolint:gosec // bounded
	orDefault(&s.JailTurns, 3)
	orDefault(&s.SlashPercent, 50)
	orDefault(&s.EvidenceWindow, 7*24*time.Hour)
	orDefault(&s.WithdrawDelay, 14*24*time.Hour)
	orDefault(&s.UnjailDelay, time.Hour)
	orDefault(&o.ProposalTime, 7*24*time.Hour)
	if s.MinStake == nil {
		s.MinStake = ether(1000)
	}
	o.Producers = append([]Producer(nil), o.Producers...)
	for i := range o.Producers {
		if o.Producers[i].Stake == nil {
			o.Producers[i].Stake = new(big.Int).Set(s.MinStake)
		}
	}
	accounts := make(map[common.Address]Account, len(o.Alloc)+len(o.Accounts))
	for a, x := range o.Accounts {
		accounts[a] = x
	}
	for a, balance := range o.Alloc {
		if _, ok := accounts[a]; ok {
			return nil, fmt.Errorf("%w: account %s stands in Alloc and in Accounts", ErrInvalid, a)
		}
		accounts[a] = Account{Balance: balance}
	}
	o.Accounts, o.Alloc = accounts, nil
	return checked(o)
}

func ether(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(1e18)) }

// Load reads a genesis file. Errors name the file and the key.
func Load(path string) (*Genesis, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("genesis file: %w", err)
	}
	if info.Size() > MaxFileBytes {
		return nil, fmt.Errorf("%w: file %s has %d bytes, %d are allowed", ErrInvalid, path, info.Size(), MaxFileBytes)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("genesis file: %w", err)
	}
	g, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("file %s: %w", path, err)
	}
	return g, nil
}

// Write writes the file. What Load reads from it is the same genesis.
func (g *Genesis) Write(path string) error {
	b, err := g.MarshalJSON()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, b, 0o644); err != nil { //nolint:gosec // public
		return fmt.Errorf("write genesis: %w", err)
	}
	return nil
}

// Parameters are the numbers that consensus and execution need.
func (g *Genesis) Parameters() block.Parameters {
	o := &g.o
	return block.Parameters{
		ChainID: o.ChainID, GenesisTime: o.GenesisTime, SlotMillis: millis(o.Slot), TurnSlots: o.TurnSlots,
		EpochBlocks: o.EpochBlocks, MaxReversible: o.MaxReversible, MinProducers: o.MinProducers,
		MaxBlockBytes: o.MaxBlockBytes, GasLimit: o.GasLimit, BaseFeeFixed: o.Fees.Mode == FeesFixed,
		BaseFee: o.Fees.BaseFee, Patience: !o.Impatient, ClockErrorMillis: millis(o.MaxClockError),
	}
}

func millis(d time.Duration) uint64  { return uint64(d / time.Millisecond) } //nolint:gosec // checked to be positive
func seconds(d time.Duration) uint64 { return uint64(d / time.Second) }      //nolint:gosec // checked to be positive

// Schedule is the first schedule: the producers of the file, in order, as many as there are seats.
func (g *Genesis) Schedule() block.Schedule {
	n := min(len(g.o.Producers), int(g.o.Settings.Seats))
	s := make(block.Schedule, n)
	for i := range s {
		s[i] = block.Producer{Account: g.o.Producers[i].Account, Key: block.BLSKey(g.o.Producers[i].BLSKey)}
	}
	return s
}

// RecoveryKeys are the accounts that may sign a recovery, and how many of them must. The caller owns the list.
func (g *Genesis) RecoveryKeys() (keys []common.Address, threshold int) {
	return slices.Clone(g.o.Recovery.Keys), int(g.o.Recovery.Threshold) //nolint:gosec // checked
}

// usualRecovery are the recovery keys of a file that names none: the first producers' accounts.
func (o *Options) usualRecovery() (r RecoveryKeys) {
	for i := range o.Producers[:min(len(o.Producers), recovery.MaxKeys)] {
		r.Keys = append(r.Keys, o.Producers[i].Account)
	}
	r.Threshold = uint64(recovery.DefaultThreshold(len(r.Keys))) //nolint:gosec // positive
	return r
}

// hasUsualRecovery reports whether the recovery keys are those of a file that names none.
func (o *Options) hasUsualRecovery() bool {
	u := o.usualRecovery()
	return o.Recovery.Threshold == u.Threshold && slices.Equal(o.Recovery.Keys, u.Keys)
}

// Members are the nodes that may connect from the start.
func (g *Genesis) Members() []Member { return append([]Member(nil), g.o.Members...) }

// Admin is the account that decides alone in Members; zero if there is none.
func (g *Genesis) Admin() common.Address { return g.o.Admin }

// Upgrades are the entries of the file, lowest height first: upgrades that it describes, and those that it says are
// Withdrawn.
func (g *Genesis) Upgrades() []Upgrade { return append([]Upgrade(nil), g.o.Upgrades...) }
