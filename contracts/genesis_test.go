package contracts

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// The storage that Go writes for genesis is what the contracts read.
func TestGenesisStorage(t *testing.T) {
	w := newWorld(t, 4, 2, func(p *ProducersGenesis, _ *MembersGenesis) { p.Seats = 3 })
	seats := w.schedule()
	require.Equal(t, []int{0, 1, 2}, w.who(seats))
	for i, s := range seats {
		require.Equal(t, w.ops[i].bls.PublicKey(), s.Key)
	}
	set, err := prods.UnpackSettings(w.view(prods.PackSettings()))
	require.NoError(t, err)
	require.Equal(t, BaseSettings{
		GenesisTime: testGenesis, SlotMillis: 500, EpochBlocks: 100, Seats: 3, MinProducers: 4, JailTurns: 3, SlashPercent: 50,
		EvidenceSeconds: 1000, WithdrawSeconds: 2000, UnjailSeconds: 60, MinStake: stake(10),
	}, set)
	totals, err := prods.UnpackTotals(w.view(prods.PackTotals()))
	require.NoError(t, err)
	require.Equal(t, stake(100+99+98+97), totals.Staked)
	require.Zero(t, totals.Slashed.Sign())

	list, err := prods.UnpackCandidates(w.view(prods.PackCandidates()))
	require.NoError(t, err)
	require.Len(t, list, 4)
	for i := range 4 {
		o := w.ops[i]
		require.Equal(t, o.account, list[i])
		c := w.candidate(o)
		require.Equal(t, uint32(i+1), c.Key)
		require.Equal(t, uint32(i+1), c.Place)
		require.Equal(t, stake(int64(100-i)), c.Votes)
		require.Equal(t, i < 3, c.Seated == 1)
		a := w.account(o)
		require.Equal(t, stake(int64(100-i)), a.Stake)
		require.Equal(t, a.Stake, a.Voted)
		bs, err := prods.UnpackBallots(w.view(prods.PackBallots(o.account)))
		require.NoError(t, err)
		require.Equal(t, []BaseBallot{{o.account, stake(int64(100 - i))}}, bs)
		pk := o.bls.PublicKey()
		owner, err := prods.UnpackKeyOwner(w.view(prods.PackKeyOwner(pk[:])))
		require.NoError(t, err)
		require.Equal(t, o.account, owner)
	}
}

func TestMembersGenesisStorage(t *testing.T) {
	admin := common.HexToAddress("0xad")
	nodes := []MemberEntry{
		{"short", common.HexToAddress("0x1"), RoleObserver},
		{strings.Repeat("m", 31), common.HexToAddress("0x2"), RoleProducer | RoleBroker},
		{strings.Repeat("n", 32), common.HexToAddress("0x2"), RoleProducer},
		{strings.Repeat("long", 32), common.Address{}, RoleBroker},
	}
	w := newWorld(t, 1, 0, func(_ *ProducersGenesis, m *MembersGenesis) { m.Nodes, m.Admin = nodes, admin })
	read := func(data []byte) []byte {
		ret, err := w.call(admin, MembersAddress, nil, data)
		require.NoError(t, err)
		return ret
	}
	got, err := DecodeMembers(read(MembersCallData()))
	require.NoError(t, err)
	require.Equal(t, nodes, got)
	for _, n := range nodes {
		out, err := mems.UnpackNode(read(mems.PackNode([]byte(n.PeerID))))
		require.NoError(t, err)
		require.Equal(t, NodeOutput{n.Account, n.Roles}, out)
	}
	out, err := mems.UnpackNode(read(mems.PackNode([]byte("stranger"))))
	require.NoError(t, err)
	require.Zero(t, out.Roles)
	for a, want := range map[int64]bool{1: false, 2: true, 3: false} {
		ok, err := mems.UnpackMayProduce(read(mems.PackMayProduce(common.BigToAddress(big.NewInt(a)))))
		require.NoError(t, err)
		require.Equal(t, want, ok, "account %d", a)
	}
	gotAdmin, err := mems.UnpackAdmin(read(mems.PackAdmin()))
	require.NoError(t, err)
	require.Equal(t, admin, gotAdmin)
	secs, err := mems.UnpackProposalSeconds(read(mems.PackProposalSeconds()))
	require.NoError(t, err)
	require.Equal(t, uint64(3600), secs)
}

// The slots that Go uses are the compiler's.
func TestStorageLayout(t *testing.T) {
	want := map[string]uint64{
		"_settings": slotSettings, "_totalStake": slotTotals, "_keys": slotKeys, "_keyOwner": slotKeyOwner,
		"_candidate": slotCandidate, "_candidates": slotCandidates, "_current": slotCurrent, "_account": slotAccount,
		"_ballots": slotBallots, "_previous": slotPrevious, "_admin": slotFlags, "_nodes": slotNodes, "_nodePlace": slotNodePlace,
		"_producerNodes": slotProducerCnt, "_senderPlace": slotSenders, "_deployerPlace": slotDeployers,
		"_changes": slotChanges, "_journals": slotJournals,
	}
	for _, s := range slices.Concat(producers().Storage, members().Storage, topics().Storage) {
		if slot, ok := want[s.Name]; ok {
			require.Equal(t, slot, s.Slot, s.Name)
			delete(want, s.Name)
		}
	}
	require.Empty(t, want)
	for _, s := range producers().Storage {
		require.Less(t, s.Slot, uint64(slotRecoveries), "the system's list lies behind what the contract uses: %s", s.Name)
	}
}

func TestDecodersRefuse(t *testing.T) {
	for _, b := range [][]byte{nil, make([]byte, 31), make([]byte, 64), []byte(strings.Repeat("\xff", 256))} {
		_, err := DecodeSchedule(b)
		require.ErrorIs(t, err, ErrReturn)
	}
	_, err := DecodeMembers([]byte("nonsense"))
	require.ErrorIs(t, err, ErrReturn)
}
