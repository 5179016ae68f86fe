package genesis

import (
	"bytes"
	"fmt"
	"math/big"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/params"
	"github.com/libp2p/go-libp2p/core/peer"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
	"github.com/bornode/bornode/recovery"
)

func bad(key, format string, args ...any) error {
	return fmt.Errorf("%w: %s: %s", ErrInvalid, key, fmt.Sprintf(format, args...))
}

// checked is the genesis of options if they are sound.
func checked(o Options) (*Genesis, error) {
	orDefault(&o.MaxClockError, o.usualClockError())
	for _, check := range []func(*Options) error{checkNumbers, checkSettings, checkProducers, checkRecovery, checkMembers, checkAccounts, checkUpgrades} {
		if err := check(&o); err != nil {
			return nil, err
		}
	}
	return &Genesis{o}, nil
}

func between(key string, v, low, high uint64) error {
	if v < low || v > high {
		return bad(key, "%d lies outside %d to %d", v, low, high)
	}
	return nil
}

func first(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// usualClockError is max_clock_error where the file does not name it.
func (o *Options) usualClockError() time.Duration { return min(UsualClockError, o.Slot) }

func checkNumbers(o *Options) error {
	if o.Slot%time.Millisecond != 0 || o.Slot < MinSlot || o.Slot > MaxSlot {
		return bad("slot", "%s is no whole number of milliseconds between %s and %s", o.Slot, MinSlot, MaxSlot)
	}
	if o.Fees.Mode != FeesFixed && o.Fees.Mode != FeesMarket {
		return bad("fees.mode", "%q is neither %q nor %q", o.Fees.Mode, FeesFixed, FeesMarket)
	}
	if o.Fees.Mode == FeesMarket && o.Fees.BaseFee < MinMarketBaseFee {
		return bad("fees.base_fee", "a market's floor is at least %d wei", MinMarketBaseFee)
	}
	if o.ProposalTime%time.Second != 0 || o.ProposalTime < time.Second || o.ProposalTime > longestSetting {
		return bad("proposal_time", "%s is no whole number of seconds from 1s to %s", o.ProposalTime, longestSetting)
	}
	if o.MaxClockError%time.Millisecond != 0 || o.MaxClockError < time.Millisecond || o.MaxClockError > o.Slot {
		return bad("max_clock_error", "%s is no whole number of milliseconds from 1ms to a slot, %s", o.MaxClockError, o.Slot)
	}
	return first(
		between("chain_id", o.ChainID, 1, MaxChainID),
		between("genesis_time", o.GenesisTime, 1, 1<<40),
		between("turn_slots", o.TurnSlots, 1, MaxTurnSlots),
		between("epoch_blocks", o.EpochBlocks, 1, MaxEpochBlocks),
		between("max_reversible", o.MaxReversible, MinReversible, MaxReversible),
		between("max_block_bytes", o.MaxBlockBytes, MinBlockBytes, MaxBlockBytes),
		between("gas_limit", o.GasLimit, MinGasLimit, MaxGasLimit),
		between("fees.base_fee", o.Fees.BaseFee, 0, MaxBaseFee),
	)
}

func checkSettings(o *Options) error {
	s := &o.Settings
	for key, d := range map[string]time.Duration{
		"evidence_window": s.EvidenceWindow, "withdraw_delay": s.WithdrawDelay, "unjail_delay": s.UnjailDelay,
	} {
		if d%time.Second != 0 || d < time.Second || d > longestSetting {
			return bad("producer_settings."+key, "%s is no whole number of seconds from 1s to %s", d, longestSetting)
		}
	}
	if s.WithdrawDelay <= s.EvidenceWindow {
		return bad("producer_settings.withdraw_delay", "%s must be longer than evidence_window, or a guilty producer is gone before the proof", s.WithdrawDelay)
	}
	if s.MinStake.Sign() <= 0 || s.MinStake.BitLen() > contracts.MaxStakeBits {
		return bad("producer_settings.min_stake", "%s is not above 0 and below 2^%d wei", s.MinStake, contracts.MaxStakeBits)
	}
	return first(
		between("producer_settings.seats", uint64(s.Seats), 1, MaxSeats),
		between("producer_settings.jail_turns", uint64(s.JailTurns), 1, 1<<16-1),
		between("producer_settings.slash_percent", uint64(s.SlashPercent), 0, 100),
	)
}

// checkRecovery fills in what the file leaves out: all producers' accounts, and the least threshold of the keys.
func checkRecovery(o *Options) error {
	r := &o.Recovery
	if len(r.Keys) == 0 {
		r.Keys = o.usualRecovery().Keys
	}
	if len(r.Keys) > recovery.MaxKeys {
		return bad("recovery.keys", "%d accounts, %d are allowed", len(r.Keys), recovery.MaxKeys)
	}
	orDefault(&r.Threshold, uint64(recovery.DefaultThreshold(len(r.Keys))))            //nolint:gosec // positive
	least, most := uint64(recovery.DefaultThreshold(len(r.Keys))), uint64(len(r.Keys)) //nolint:gosec // positive
	if r.Threshold < least || r.Threshold > most {
		return bad("recovery.threshold", "%d of %d keys; %d to %d are allowed, so that over a third must sign both of two recoveries that contradict each other", r.Threshold, most, least, most)
	}
	if err := recovery.CheckKeys(r.Keys, int(r.Threshold)); err != nil { //nolint:gosec // bounded
		return bad("recovery.keys", "%s", err)
	}
	return nil
}

func checkProducers(o *Options) error {
	if len(o.Producers) == 0 || len(o.Producers) > MaxProducers {
		return bad("producers", "%d producers; between 1 and %d are needed", len(o.Producers), MaxProducers)
	}
	most := min(uint64(o.Settings.Seats), uint64(len(o.Producers)))
	if o.MinProducers < 1 || o.MinProducers > most {
		return bad("min_producers", "%d lies outside 1 to %d, the seats that the producers of this file fill", o.MinProducers, most)
	}
	accounts, keys := make(map[common.Address]int), make(map[[48]byte]int)
	total := new(big.Int)
	for i := range o.Producers {
		p, key := &o.Producers[i], fmt.Sprintf("producers[%d]", i)
		if p.Account == (common.Address{}) {
			return bad(key+".account", "the zero account cannot produce")
		}
		if j, ok := accounts[p.Account]; ok {
			return bad(key+".account", "%s is producer %d already", p.Account, j)
		}
		if j, ok := keys[p.BLSKey]; ok {
			return bad(key+".bls_key", "it is the key of producer %d already; every producer has its own", j)
		}
		accounts[p.Account], keys[p.BLSKey] = i, i
		if err := bls.ValidatePublicKey(p.BLSKey); err != nil {
			return bad(key+".bls_key", "it is no BLS public key")
		}
		digest := block.PossessionDigest(o.ChainID, p.Account, block.BLSKey(p.BLSKey))
		if !bls.Verify(p.BLSKey, digest[:], p.Proof) {
			return bad(key+".proof", "it does not prove that %s holds the key on chain %d; make it again with this chain_id and account", p.Account, o.ChainID)
		}
		if p.Stake.Cmp(o.Settings.MinStake) < 0 {
			return bad(key+".stake", "%s wei is below producer_settings.min_stake %s", p.Stake, o.Settings.MinStake)
		}
		if total.Add(total, p.Stake).BitLen() > contracts.MaxStakeBits {
			return bad(key+".stake", "with it all stakes together are not below 2^%d wei", contracts.MaxStakeBits)
		}
	}
	return nil
}

func checkMembers(o *Options) error {
	if len(o.Members) > MaxMembers {
		return bad("members", "%d members, %d are allowed", len(o.Members), MaxMembers)
	}
	seen := make(map[string]int)
	for i, m := range o.Members {
		key := fmt.Sprintf("members[%d]", i)
		id, err := peer.Decode(m.PeerID)
		if err != nil {
			return bad(key+".peer_id", "%q is no libp2p peer id", m.PeerID)
		}
		if id.String() != m.PeerID || len(m.PeerID) > contracts.MaxPeerIDBytes {
			return bad(key+".peer_id", "write %q as libp2p prints it: %q", m.PeerID, id.String())
		}
		if j, ok := seen[m.PeerID]; ok {
			return bad(key+".peer_id", "%s is member %d already", m.PeerID, j)
		}
		seen[m.PeerID] = i
		if m.Roles == 0 || m.Roles > RoleProducer|RoleObserver|RoleBroker {
			return bad(key+".roles", "a member has one or more of the roles producer, observer, broker")
		}
		if m.Roles&RoleProducer != 0 && m.Account == (common.Address{}) {
			return bad(key+".account", "a producer's node needs the producer's account")
		}
	}
	return checkProducersNodes(o)
}

// checkProducersNodes: without a node that may connect a producer's blocks and votes reach nobody. A file without any
// member is that of a node that stays alone.
func checkProducersNodes(o *Options) error {
	if len(o.Members) == 0 {
		return nil
	}
	has := make(map[common.Address]bool)
	for _, m := range o.Members {
		has[m.Account] = has[m.Account] || m.Roles&RoleProducer != 0
	}
	for i, p := range o.Producers {
		if !has[p.Account] {
			return bad(fmt.Sprintf("producers[%d].account", i), "%s has no node: add a member with this account and the role producer", p.Account)
		}
	}
	return nil
}

func checkAccounts(o *Options) error {
	for a := range systemAlloc() {
		if _, ok := o.Accounts[a]; ok {
			return bad("alloc."+a.Hex(), "a system contract lives there")
		}
	}
	for _, a := range []common.Address{ProducersAddress, MembersAddress, TopicsAddress, params.SystemAddress} {
		if _, ok := o.Accounts[a]; ok {
			return bad("alloc."+a.Hex(), "the system uses this account")
		}
	}
	for a, x := range o.Accounts {
		if x.Balance != nil && (x.Balance.Sign() < 0 || x.Balance.BitLen() > 256) {
			return bad("alloc."+a.Hex()+".balance", "%s does not fit 256 bits", x.Balance)
		}
		if bytes.HasPrefix(x.Code, []byte{0xef}) {
			return bad("alloc."+a.Hex()+".code", "code cannot begin with 0xef")
		}
	}
	return nil
}

func checkUpgrades(o *Options) error {
	if len(o.Upgrades) > MaxUpgrades {
		return bad("upgrades", "%d upgrades, %d are allowed", len(o.Upgrades), MaxUpgrades)
	}
	names, last := make(map[string]bool), uint64(0)
	withdrawn := make(map[upgradeID]bool)
	for i := range o.Upgrades {
		u, key := &o.Upgrades[i], fmt.Sprintf("upgrades[%d]", i)
		if u.Height == 0 || (i > 0 && u.Height < last) {
			return bad(key+".height", "upgrades stand in the order of their heights, the first above 0")
		}
		last = u.Height
		if u.Withdrawn != (common.Hash{}) {
			if err := checkWithdrawn(key, u, withdrawn); err != nil {
				return err
			}
			continue
		}
		if u.Name == "" || len(u.Name) > MaxUpgradeName || names[u.Name] {
			return bad(key+".name", "%q must be a name of 1 to %d bytes that no other upgrade has", u.Name, MaxUpgradeName)
		}
		names[u.Name] = true
		if u.Fork != "" && u.Fork != Fork {
			return bad(key+".fork", "this version knows %q alone and not %q; install the version that knows it", Fork, u.Fork)
		}
		for name, text := range u.Parameters {
			if err := known(key+".parameters", name, Votable()); err != nil {
				return err
			}
			if _, err := EncodeParameter(name, text, o.Fees.Mode == FeesMarket); err != nil {
				return bad(key+".parameters."+name, "%s", err)
			}
		}
		if err := checkCode(key+".code", u.Code); err != nil {
			return err
		}
	}
	return nil
}

type upgradeID struct {
	height uint64
	name   string
	digest common.Hash
}

// checkWithdrawn: the name may be that of a description, for what was withdrawn may be an attempt at the same upgrade.
func checkWithdrawn(key string, u *Upgrade, seen map[upgradeID]bool) error {
	id := upgradeID{u.Height, u.Name, u.Withdrawn}
	switch {
	case u.Name == "" || len(u.Name) > MaxUpgradeName:
		return bad(key+".name", "%q must be the name that was voted for, of 1 to %d bytes", u.Name, MaxUpgradeName)
	case u.Fork != "" || len(u.Parameters) > 0 || len(u.Code) > 0:
		return bad(key+".withdrawn", "an upgrade that is withdrawn has height and name and nothing else")
	case seen[id]:
		return bad(key+".withdrawn", "the same withdrawal stands in the list twice")
	}
	seen[id] = true
	return nil
}

// checkCode: an upgrade replaces the code of what every chain has from block 0 on, and of nothing else.
func checkCode(key string, code map[common.Address]hexutil.Bytes) error {
	system := systemAlloc()
	for a, b := range code {
		if _, ok := system[a]; !ok && a != ProducersAddress && a != MembersAddress && a != TopicsAddress {
			return bad(key+"."+a.Hex(), "no system contract lives there")
		}
		if len(b) == 0 || len(b) > MaxCodeBytes || b[0] == 0xef {
			return bad(key+"."+a.Hex(), "code has 1 to %d bytes, the first not 0xef", MaxCodeBytes)
		}
	}
	return nil
}
