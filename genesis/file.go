package genesis

import (
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/recovery"
)

// fieldsOf lists the keys of the file.
func fieldsOf(o *Options) object {
	return object{
		{"chain_id", number(&o.ChainID), "a number that no other chain uses"},
		{"genesis_time", number(&o.GenesisTime), "the Unix time in seconds at which slot 0 begins"},
		{"slot", duration(&o.Slot), `"500ms"`},
		{"turn_slots", number(&o.TurnSlots), "12"},
		{"epoch_blocks", number(&o.EpochBlocks), "1200"},
		{"max_reversible", number(&o.MaxReversible), "3600"},
		{"min_producers", number(&o.MinProducers), "4"},
		{"max_block_bytes", number(&o.MaxBlockBytes), "4194304"},
		{"gas_limit", number(&o.GasLimit), "300000000"},
		{"fees", object{
			{"mode", str(&o.Fees.Mode), `"fixed"`},
			{"base_fee", smallAmount(&o.Fees.BaseFee), `"0"`},
		}.read, `{"mode": "fixed", "base_fee": "0"}`},
		{"patience", truth(&o.Impatient, true), "true"},
		{"max_clock_error", duration(&o.MaxClockError), ""},
		{"producer_settings", object{
			{"seats", number(&o.Settings.Seats), "21"},
			{"jail_turns", number(&o.Settings.JailTurns), "3"},
			{"slash_percent", number(&o.Settings.SlashPercent), "50"},
			{"evidence_window", duration(&o.Settings.EvidenceWindow), `"168h"`},
			{"withdraw_delay", duration(&o.Settings.WithdrawDelay), `"336h"`},
			{"unjail_delay", duration(&o.Settings.UnjailDelay), `"1h"`},
			{"min_stake", amount(&o.Settings.MinStake), `"1000000000000000000000"`},
		}.read, "an object with seats, jail_turns, slash_percent, evidence_window, withdraw_delay, unjail_delay, min_stake"},
		{"proposal_time", duration(&o.ProposalTime), `"168h"`},
		{"admin", fixed(o.Admin[:]), ""},
		{"recovery", object{
			{"keys", o.readRecoveryKeys, ""},
			{"threshold", number(&o.Recovery.Threshold), ""},
		}.read, ""},
		{"producers", o.readProducers, "a list of {account, bls_key, proof, stake}"},
		{"members", o.readMembers, ""},
		{"alloc", o.readAlloc, ""},
		{"upgrades", o.readUpgrades, ""},
	}
}

func (o *Options) readRecoveryKeys(key string, raw json.RawMessage) error {
	return elements(key, raw, func(key string, v json.RawMessage) error {
		if len(o.Recovery.Keys) >= recovery.MaxKeys {
			return bad("recovery.keys", "more than %d", recovery.MaxKeys)
		}
		var a common.Address
		err := fixed(a[:])(key, v)
		o.Recovery.Keys = append(o.Recovery.Keys, a)
		return err
	})
}

func (o *Options) readProducers(key string, raw json.RawMessage) error {
	return elements(key, raw, func(key string, v json.RawMessage) error {
		if len(o.Producers) >= MaxProducers {
			return bad("producers", "more than %d", MaxProducers)
		}
		var p Producer
		err := object{
			{"account", fixed(p.Account[:]), "the producer's address"},
			{"bls_key", fixed(p.BLSKey[:]), "the 48 bytes that `bornode init --producer` prints"},
			{"proof", fixed(p.Proof[:]), "the 96 bytes that `bornode init --producer` prints"},
			{"stake", amount(&p.Stake), "producer_settings.min_stake"},
		}.read(key, v)
		o.Producers = append(o.Producers, p)
		return err
	})
}

var roleNames = []struct { //nolint:gochecknoglobals // a constant table
	name string
	role Roles
}{{"producer", RoleProducer}, {"observer", RoleObserver}, {"broker", RoleBroker}}

func (r *Roles) read(key string, raw json.RawMessage) error {
	return elements(key, raw, func(key string, v json.RawMessage) error {
		s, err := text(key, v)
		if err != nil {
			return err
		}
		for _, n := range roleNames {
			if n.name == s && *r&n.role == 0 {
				*r |= n.role
				return nil
			}
		}
		return bad(key, "%q is no role, or stands twice; the roles are producer, observer, broker", clip(s))
	})
}

// String lists the roles' names.
func (r Roles) String() string { return strings.Join(r.names(), ",") }

func (r Roles) names() []string {
	var out []string
	for _, n := range roleNames {
		if r&n.role != 0 {
			out = append(out, n.name)
		}
	}
	return out
}

func (o *Options) readMembers(key string, raw json.RawMessage) error {
	return elements(key, raw, func(key string, v json.RawMessage) error {
		if len(o.Members) >= MaxMembers {
			return bad("members", "more than %d", MaxMembers)
		}
		var m Member
		err := object{
			{"peer_id", str(&m.PeerID), "the peer id that `bornode init` prints"},
			{"account", fixed(m.Account[:]), ""},
			{"roles", m.Roles.read, `["observer"]`},
		}.read(key, v)
		o.Members = append(o.Members, m)
		return err
	})
}

func (o *Options) readAlloc(key string, raw json.RawMessage) error {
	o.Accounts = make(map[common.Address]Account)
	return members(key, raw, func(name string, v json.RawMessage) error {
		a, err := address(key, name)
		if err != nil {
			return err
		}
		if _, ok := o.Accounts[a]; ok {
			return bad(join(key, name), "the account stands twice")
		}
		x, err := readAccount(join(key, name), v)
		o.Accounts[a] = x
		return err
	})
}

func readAccount(key string, raw json.RawMessage) (x Account, err error) {
	if len(raw) == 0 || raw[0] != '{' {
		return x, amount(&x.Balance)(key, raw)
	}
	return x, object{
		{"balance", amount(&x.Balance), ""},
		{"nonce", number(&x.Nonce), ""},
		{"code", code(&x.Code), ""},
		{"storage", func(key string, raw json.RawMessage) error {
			x.Storage = make(map[common.Hash]common.Hash)
			return members(key, raw, func(name string, v json.RawMessage) error {
				var slot, value common.Hash
				quoted, err := json.Marshal(name)
				if err != nil {
					return bad(key, "%s", err)
				}
				if err := first(fixed(slot[:])(join(key, clip(name)), quoted), fixed(value[:])(join(key, name), v)); err != nil {
					return err
				}
				if _, ok := x.Storage[slot]; ok {
					return bad(join(key, name), "the slot stands twice")
				}
				x.Storage[slot] = value
				return nil
			})
		}, ""},
	}.read(key, raw)
}

func (o *Options) readUpgrades(key string, raw json.RawMessage) error {
	return elements(key, raw, func(key string, v json.RawMessage) error {
		if len(o.Upgrades) >= MaxUpgrades {
			return bad("upgrades", "more than %d", MaxUpgrades)
		}
		var u Upgrade
		err := object{
			{"height", number(&u.Height), "the first block that follows the new rules"},
			{"name", str(&u.Name), "a name that no other upgrade has"},
			{"fork", str(&u.Fork), ""},
			{"withdrawn", func(key string, raw json.RawMessage) error {
				err := fixed(u.Withdrawn[:])(key, raw)
				if err == nil && u.Withdrawn == (common.Hash{}) {
					return bad(key, "the digest that was voted for belongs here, and it is not zero")
				}
				return err
			}, ""},
			{"parameters", func(key string, raw json.RawMessage) error {
				u.Parameters = make(map[string]string)
				return members(key, raw, func(name string, v json.RawMessage) error {
					s, err := text(join(key, name), v)
					if err != nil {
						return err
					}
					u.Parameters[name] = s
					_, err = amountOf(join(key, name), s)
					return err
				})
			}, ""},
			{"code", func(key string, raw json.RawMessage) error {
				u.Code = make(map[common.Address]hexutil.Bytes)
				return members(key, raw, func(name string, v json.RawMessage) error {
					a, err := address(key, name)
					if err != nil {
						return err
					}
					var b hexutil.Bytes
					err = code(&b)(join(key, name), v)
					u.Code[a] = b
					return err
				})
			}, ""},
		}.read(key, v)
		o.Upgrades = append(o.Upgrades, u)
		return err
	})
}

// ---- writing

type feesJSON struct {
	Mode    string `json:"mode"`
	BaseFee string `json:"base_fee"`
}

type settingsJSON struct {
	Seats          uint16 `json:"seats"`
	JailTurns      uint16 `json:"jail_turns"`
	SlashPercent   uint8  `json:"slash_percent"`
	EvidenceWindow string `json:"evidence_window"`
	WithdrawDelay  string `json:"withdraw_delay"`
	UnjailDelay    string `json:"unjail_delay"`
	MinStake       string `json:"min_stake"`
}

type producerJSON struct {
	Account common.Address `json:"account"`
	BLSKey  hexutil.Bytes  `json:"bls_key"`
	Proof   hexutil.Bytes  `json:"proof"`
	Stake   string         `json:"stake"`
}

type memberJSON struct {
	PeerID  string          `json:"peer_id"`
	Account *common.Address `json:"account,omitempty"`
	Roles   []string        `json:"roles"`
}

type accountJSON struct {
	Balance string                      `json:"balance"`
	Nonce   uint64                      `json:"nonce,omitempty"`
	Code    hexutil.Bytes               `json:"code,omitempty"`
	Storage map[common.Hash]common.Hash `json:"storage,omitempty"`
}

type upgradeJSON struct {
	Height     uint64                           `json:"height"`
	Name       string                           `json:"name"`
	Fork       string                           `json:"fork,omitempty"`
	Parameters map[string]string                `json:"parameters,omitempty"`
	Code       map[common.Address]hexutil.Bytes `json:"code,omitempty"`
	Withdrawn  *common.Hash                     `json:"withdrawn,omitempty"`
}

type recoveryJSON struct {
	Keys      []common.Address `json:"keys"`
	Threshold uint64           `json:"threshold"`
}

type fileJSON struct {
	ChainID       uint64                 `json:"chain_id"`
	GenesisTime   uint64                 `json:"genesis_time"`
	Slot          string                 `json:"slot"`
	TurnSlots     uint64                 `json:"turn_slots"`
	EpochBlocks   uint64                 `json:"epoch_blocks"`
	MaxReversible uint64                 `json:"max_reversible"`
	MinProducers  uint64                 `json:"min_producers"`
	MaxBlockBytes uint64                 `json:"max_block_bytes"`
	GasLimit      uint64                 `json:"gas_limit"`
	Fees          feesJSON               `json:"fees"`
	Patience      bool                   `json:"patience"`
	MaxClockError string                 `json:"max_clock_error,omitempty"`
	Settings      settingsJSON           `json:"producer_settings"`
	ProposalTime  string                 `json:"proposal_time"`
	Admin         *common.Address        `json:"admin,omitempty"`
	Recovery      *recoveryJSON          `json:"recovery,omitempty"`
	Producers     []producerJSON         `json:"producers"`
	Members       []memberJSON           `json:"members"`
	Alloc         map[common.Address]any `json:"alloc"`
	Upgrades      []upgradeJSON          `json:"upgrades"`
}

func accountOrNil(a common.Address) *common.Address {
	if a == (common.Address{}) {
		return nil
	}
	return &a
}

func balanceText(v *big.Int) string {
	if v == nil {
		return "0"
	}
	return v.String()
}

// durationText is a duration without the zeros at its end: "168h", not "168h0m0s".
func durationText(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalJSON is the file, indented, every key in its usual place.
func (g *Genesis) MarshalJSON() ([]byte, error) {
	o := &g.o
	f := fileJSON{
		ChainID: o.ChainID, GenesisTime: o.GenesisTime, Slot: durationText(o.Slot), TurnSlots: o.TurnSlots, EpochBlocks: o.EpochBlocks,
		MaxReversible: o.MaxReversible, MinProducers: o.MinProducers, MaxBlockBytes: o.MaxBlockBytes, GasLimit: o.GasLimit,
		Fees: feesJSON{o.Fees.Mode, fmt.Sprint(o.Fees.BaseFee)}, Patience: !o.Impatient, ProposalTime: durationText(o.ProposalTime),
		Settings: settingsJSON{
			o.Settings.Seats, o.Settings.JailTurns, o.Settings.SlashPercent, durationText(o.Settings.EvidenceWindow),
			durationText(o.Settings.WithdrawDelay), durationText(o.Settings.UnjailDelay), o.Settings.MinStake.String(),
		},
		Admin: accountOrNil(o.Admin), Producers: []producerJSON{}, Members: []memberJSON{}, Alloc: make(map[common.Address]any), Upgrades: []upgradeJSON{},
	}
	if o.MaxClockError != o.usualClockError() { // programs older than the key refuse a file that has it
		f.MaxClockError = durationText(o.MaxClockError)
	}
	if !o.hasUsualRecovery() { // likewise
		f.Recovery = &recoveryJSON{o.Recovery.Keys, o.Recovery.Threshold}
	}
	for i := range o.Producers {
		p := &o.Producers[i]
		f.Producers = append(f.Producers, producerJSON{p.Account, p.BLSKey[:], p.Proof[:], p.Stake.String()})
	}
	for _, m := range o.Members {
		f.Members = append(f.Members, memberJSON{m.PeerID, accountOrNil(m.Account), m.Roles.names()})
	}
	for a, x := range o.Accounts {
		f.Alloc[a] = balanceText(x.Balance)
		if x.Nonce != 0 || len(x.Code) != 0 || len(x.Storage) != 0 {
			f.Alloc[a] = accountJSON{balanceText(x.Balance), x.Nonce, x.Code, x.Storage}
		}
	}
	for _, u := range o.Upgrades {
		f.Upgrades = append(f.Upgrades, upgradeJSON{u.Height, u.Name, u.Fork, u.Parameters, u.Code, u.wire().Withdrawn})
	}
	b, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encode genesis: %w", err)
	}
	return append(b, '\n'), nil
}
