package contracts

import (
	"bytes"
	"errors"
	"math/big"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/stretchr/testify/require"
)

// ask proposes and returns the proposal's number.
func (w *world) ask(o common.Address, data []byte, err error) (uint64, error) {
	w.t.Helper()
	require.NoError(w.t, err)
	ret, err := w.call(o, MembersAddress, nil, data)
	if err != nil {
		return 0, err
	}
	id, err := mems.UnpackPropose(ret)
	require.NoError(w.t, err)
	return id.Uint64(), nil
}

func (w *world) approve(o operator, id uint64) error {
	var content common.Hash
	if n, err := mems.UnpackProposalCount(w.read(mems.PackProposalCount())); err == nil && n.Uint64() > id {
		p := w.proposal(id).P
		content = ProposalContent(p.Kind, p.Data)
	}
	return w.approveContent(o, id, content)
}

func (w *world) approveContent(o operator, id uint64, content common.Hash) error {
	_, err := w.call(o.account, MembersAddress, nil, ApproveCall(id, content))
	return err
}

func (w *world) read(data []byte) []byte { return w.readFrom(MembersAddress, data) }

func (w *world) readFrom(to common.Address, data []byte) []byte {
	w.t.Helper()
	ret, err := w.call(common.Address{1}, to, nil, data)
	require.NoError(w.t, err)
	return ret
}

func (w *world) nodes() []MemberEntry {
	w.t.Helper()
	list, err := DecodeMembers(w.read(MembersCallData()))
	require.NoError(w.t, err)
	return list
}

func (w *world) proposal(id uint64) ProposalOutput {
	w.t.Helper()
	p, err := mems.UnpackProposal(w.read(mems.PackProposal(new(big.Int).SetUint64(id))))
	require.NoError(w.t, err)
	return p
}

var admin = common.HexToAddress("0xad0001")

// withAdmin is a network whose admin decides alone.
func withAdmin(_ *ProducersGenesis, m *MembersGenesis) { m.Admin = admin }

func TestQuorumDecides(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	before := w.nodes()
	entry := MemberEntry{"12D3KooWNewcomer", common.HexToAddress("0x99"), RoleObserver}
	data, err := AddMemberCall(entry.PeerID, entry.Account, entry.Roles)
	_, perr := w.ask(w.ops[4].account, data, err)
	require.ErrorContains(t, perr, "only a producer of the schedule or the admin")

	id, perr := w.ask(w.ops[0].account, data, err)
	require.NoError(t, perr)
	require.ErrorContains(t, w.approve(w.ops[0], id), "approved before")
	require.ErrorContains(t, w.approve(w.ops[4], id), "only a producer of the schedule approves")
	require.ErrorContains(t, w.approve(w.ops[1], id+1), "no such proposal")
	require.NoError(t, w.approve(w.ops[1], id))
	require.Equal(t, before, w.nodes(), "two of four decide nothing")
	p := w.proposal(id)
	require.True(t, p.Open)
	require.Equal(t, int64(2), p.Approvals.Int64())

	require.NoError(t, w.approve(w.ops[2], id))
	require.Equal(t, append(before, entry), w.nodes())
	require.False(t, w.proposal(id).Open)
	require.ErrorContains(t, w.approve(w.ops[3], id), "took effect before")
}

// An approval is of a content: signed for one proposal, it does nothing for another that got its number.
func TestApprovalsBindContent(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	mine, err := RestrictSendersCall(true)
	content, cerr := ProposedContent(mine)
	require.NoError(t, cerr)
	branch := w.state.Copy()
	id, perr := w.ask(w.ops[0].account, mine, err)
	require.NoError(t, perr)
	p := w.proposal(id).P
	require.Equal(t, ProposalContent(p.Kind, p.Data), content)
	require.NoError(t, w.approveContent(w.ops[1], id, content))

	w.state = branch // another producer's proposal came first here
	for _, theirs := range []func() ([]byte, error){
		func() ([]byte, error) { return SetAdminCall(w.ops[3].account) },
		func() ([]byte, error) { return RestrictSendersCall(false) },
		func() ([]byte, error) { return RestrictDeployersCall(true) }, // the same data under another kind
	} {
		data, err := theirs()
		id, perr := w.ask(w.ops[3].account, data, err)
		require.NoError(t, perr)
		require.ErrorContains(t, w.approveContent(w.ops[1], id, content), "another one than the caller approves")
		require.Equal(t, int64(1), w.proposal(id).Approvals.Int64())
	}
	for _, call := range [][]byte{nil, mine[:4], mine[:40], ApproveCall(id, content)} {
		_, err := ProposedContent(call)
		require.Error(t, err)
	}
}

func TestProposalsExpire(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	data, err := RestrictSendersCall(true)
	id, perr := w.ask(w.ops[0].account, data, err)
	require.NoError(t, perr)
	w.seconds += 3600
	require.NoError(t, w.approve(w.ops[1], id))
	w.seconds++
	require.ErrorContains(t, w.approve(w.ops[2], id), "expired")
	require.False(t, w.proposal(id).Open)
}

// Approvals of accounts that left the schedule do not count.
func TestApprovalsFollowTheSchedule(t *testing.T) {
	w := newWorld(t, 4, 1, nil)
	data, err := RestrictSendersCall(true)
	id, perr := w.ask(w.ops[3].account, data, err)
	require.NoError(t, perr)
	require.NoError(t, w.approve(w.ops[0], id))
	w.standFor(w.ops[4], stake(500))
	w.do(w.ops[4], prods.PackReportStandby())
	require.Equal(t, []int{0, 1, 2, 4}, w.who(w.endEpoch()))
	require.ErrorContains(t, w.approve(w.ops[3], id), "only a producer of the schedule")
	require.Equal(t, int64(1), w.proposal(id).Approvals.Int64())
	require.NoError(t, w.approve(w.ops[1], id))
	require.False(t, w.proposal(id).P.Done)
	require.NoError(t, w.approve(w.ops[4], id))
	require.True(t, w.proposal(id).P.Done)
}

func TestAdminDecidesAlone(t *testing.T) {
	w := newWorld(t, 4, 0, withAdmin)
	data, err := AddMemberCall("peer", common.Address{}, RoleBroker)
	_, perr := w.ask(admin, data, err)
	require.NoError(t, perr)
	require.Len(t, w.nodes(), 5)

	data, err = SetAdminCall(common.Address{})
	_, perr = w.ask(admin, data, err)
	require.NoError(t, perr)
	data, err = RemoveMemberCall("peer")
	_, perr = w.ask(admin, data, err)
	require.ErrorContains(t, perr, "only a producer of the schedule or the admin")
}

func TestNodes(t *testing.T) {
	w := newWorld(t, 4, 1, withAdmin)
	do := func(data []byte, err error) error {
		_, perr := w.ask(admin, data, err)
		return perr
	}
	a, b := common.HexToAddress("0xa"), common.HexToAddress("0xb")
	require.NoError(t, do(AddMemberCall("p1", a, RoleProducer)))
	require.NoError(t, do(AddMemberCall("p2", a, RoleProducer|RoleBroker)))
	mayProduce := func(x common.Address) bool {
		ok, err := mems.UnpackMayProduce(w.read(mems.PackMayProduce(x)))
		require.NoError(t, err)
		return ok
	}
	require.True(t, mayProduce(a))
	require.NoError(t, do(RemoveMemberCall("p1")))
	require.True(t, mayProduce(a), "one node is left")
	require.NoError(t, do(AddMemberCall("p2", b, RoleProducer)), "a change")
	require.False(t, mayProduce(a))
	require.True(t, mayProduce(b))
	list := w.nodes()
	require.Equal(t, MemberEntry{"p2", b, RoleProducer}, list[len(list)-1])
	require.NoError(t, do(AddMemberCall("p2", common.Address{}, RoleObserver)))
	require.False(t, mayProduce(b))

	first := w.nodes()[0]
	require.NoError(t, do(RemoveMemberCall(first.PeerID)), "the last takes its place")
	for _, n := range w.nodes() {
		out, err := mems.UnpackNode(w.read(mems.PackNode([]byte(n.PeerID))))
		require.NoError(t, err)
		require.Equal(t, NodeOutput{n.Account, n.Roles}, out)
	}
	require.ErrorContains(t, do(RemoveMemberCall(first.PeerID)), "no such node")
	require.ErrorContains(t, do(AddMemberCall("x", a, 0)), "roles are")
	require.ErrorContains(t, do(AddMemberCall("x", a, 8)), "roles are")
	require.ErrorContains(t, do(AddMemberCall("x", common.Address{}, RoleProducer)), "needs an account")
	require.ErrorContains(t, do(propose(ProposeSetNode, "bytes,address,uint8", []byte{}, a, uint8(1))), "1 to 128 bytes")
	require.ErrorContains(t, do(propose(77, "bool", true)), "no such kind")
	_, err := AddMemberCall("", a, 1)
	require.Error(t, err)
}

// Who loses his last producer node loses the candidacy.
func TestRevocation(t *testing.T) {
	w := newWorld(t, 5, 0, func(p *ProducersGenesis, m *MembersGenesis) { p.MinProducers, m.Admin = 3, admin })
	data, err := RemoveMemberCall(w.nodes()[1].PeerID)
	_, perr := w.ask(admin, data, err)
	require.NoError(t, perr)
	o := w.ops[1]
	require.True(t, w.candidate(o).Resigned)
	w.refused(o, prods.PackRejoin(), "producer role")
	require.Equal(t, []int{0, 2, 3, 4}, w.who(w.endEpoch()))
}

func TestLists(t *testing.T) {
	w := newWorld(t, 4, 0, withAdmin)
	do := func(data []byte, err error) {
		t.Helper()
		_, perr := w.ask(admin, data, err)
		require.NoError(t, perr)
	}
	listed, other, producer := common.HexToAddress("0x11"), common.HexToAddress("0x12"), w.ops[0].account
	check := func(send, deploy map[common.Address]bool) {
		t.Helper()
		for a, want := range send {
			ok, err := mems.UnpackMaySend(w.read(mems.PackMaySend(a)))
			require.NoError(t, err)
			require.Equal(t, want, ok)
			require.Equal(t, want, MaySend(w.state, a), "Go reads it as the contract says")
		}
		for a, want := range deploy {
			ok, err := mems.UnpackMayDeploy(w.read(mems.PackMayDeploy(a)))
			require.NoError(t, err)
			require.Equal(t, want, ok)
			require.Equal(t, want, MayDeploy(w.state, a))
		}
	}
	type who = map[common.Address]bool
	check(who{listed: true, other: true, producer: true}, who{listed: true, other: true, producer: true})
	do(AllowSenderCall(other, true))
	do(AllowSenderCall(listed, true))
	do(AllowSenderCall(listed, true))
	do(RestrictSendersCall(true))
	check(who{listed: true, other: true, common.HexToAddress("0x13"): false, producer: true, admin: true}, who{other: true})
	do(AllowSenderCall(other, false))
	do(AllowSenderCall(other, false))
	check(who{listed: true, other: false}, who{other: true})
	senders, err := mems.UnpackSenders(w.read(mems.PackSenders()))
	require.NoError(t, err)
	require.Equal(t, []common.Address{listed}, senders)

	do(RestrictDeployersCall(true))
	do(AllowDeployerCall(other, true))
	check(who{listed: true, other: false}, who{other: true, listed: false, producer: false, admin: true})
	r, err := mems.UnpackRestrictions(w.read(mems.PackRestrictions()))
	require.NoError(t, err)
	require.Equal(t, RestrictionsOutput{true, true}, r)
	do(RestrictSendersCall(false))
	do(AllowDeployerCall(other, false))
	check(who{listed: true, other: true}, who{other: false})
	deployers, err := mems.UnpackDeployers(w.read(mems.PackDeployers()))
	require.NoError(t, err)
	require.Empty(t, deployers)
}

// committed shows the storage of a world whose state is not committed.
type committed struct {
	w    *world
	fail int // reads until the first error; negative: never
}

func (c *committed) Storage(a common.Address, slot common.Hash) (common.Hash, error) {
	if c.fail == 0 {
		return common.Hash{}, errDisk
	}
	c.fail--
	return c.w.state.GetState(a, slot), nil
}

var errDisk = errors.New("disk")

func (w *world) decide(data []byte, err error) error {
	_, perr := w.ask(admin, data, err)
	return perr
}

func TestChanges(t *testing.T) {
	w := newWorld(t, 4, 0, withAdmin)
	w.height = 50
	require.ErrorContains(t, w.decide(ParameterCall(50+ChangeNotice-1, "gas_limit", []byte{1})), "64 blocks after")
	require.ErrorContains(t, w.decide(ParameterCall(50+ChangeNotice, "", []byte{1})), "1 to 64 bytes")
	long := strings.Repeat("n", MaxChangeName)
	require.ErrorContains(t, w.decide(ParameterCall(50+ChangeNotice, long+"n", []byte{1})), "1 to 64 bytes")
	require.ErrorContains(t, w.decide(ParameterCall(50+ChangeNotice, "x", make([]byte, MaxChangeValue+1))), "32 bytes at most")
	digest := common.HexToHash("0xd1")
	want := []Change{
		{50 + ChangeNotice, ProposeParameter, 1, "gas_limit", ParameterValue(77)},
		{1 << 60, ProposeUpgrade, 2, "next", digest[:]},
		{200, ProposeParameter, 3, long, []byte{}},
		{200, ProposeParameter, 4, strings.Repeat("q", 31), bytes.Repeat([]byte{9}, 31)},
		{200, ProposeParameter, 5, strings.Repeat("r", 32), bytes.Repeat([]byte{7}, 32)},
		{200, ProposeParameter, 6, strings.Repeat("s", 33), []byte{0}},
	}
	for _, c := range want {
		if c.Kind == ProposeUpgrade {
			require.NoError(t, w.decide(UpgradeCall(c.Height, c.Name, digest)))
		} else {
			require.NoError(t, w.decide(ParameterCall(c.Height, c.Name, c.Value)))
		}
	}
	out, err := mems.UnpackChanges(w.read(mems.PackChanges()))
	require.NoError(t, err)
	var said []Change
	for _, c := range out {
		said = append(said, Change(c))
	}
	require.Equal(t, want, said)

	reads := &committed{w, -1}
	got, err := ReadChanges(reads)
	require.NoError(t, err)
	require.Equal(t, want, got, "Go reads it as the contract says")
	for n := 0; n < -1-reads.fail; n++ {
		_, err := ReadChanges(&committed{w, n})
		require.ErrorIs(t, err, errDisk, "after %d reads", n)
	}
	require.Equal(t, []byte{0, 0, 0, 0, 0, 0, 0, 77}, got[0].Value)
}

func (w *world) changes() []Change {
	w.t.Helper()
	got, err := ReadChanges(&committed{w, -1})
	require.NoError(w.t, err)
	return got
}

// A decision takes the place of an earlier one of the same kind, height and name, and is the later one all the same.
func TestChangesAreReplaced(t *testing.T) {
	w := newWorld(t, 4, 0, withAdmin)
	a, b := common.Hash{0xa}, common.Hash{0xb}
	require.NoError(t, w.decide(ParameterCall(100, "n", []byte{1})))
	require.NoError(t, w.decide(UpgradeCall(100, "n", a)))
	require.NoError(t, w.decide(UpgradeCall(101, "n", a)))
	require.NoError(t, w.decide(ParameterCall(101, "n", []byte{2})))
	require.NoError(t, w.decide(ParameterCall(100, "m", []byte{3})))
	require.NoError(t, w.decide(ParameterCall(100, "n", []byte{4})))
	require.NoError(t, w.decide(UpgradeCall(101, "n", b)))
	require.Equal(t, []Change{
		{100, ProposeUpgrade, 2, "n", a[:]}, {101, ProposeParameter, 4, "n", []byte{2}}, {100, ProposeParameter, 5, "m", []byte{3}},
		{100, ProposeParameter, 6, "n", []byte{4}}, {101, ProposeUpgrade, 7, "n", b[:]},
	}, w.changes())
}

// An upgrade can be withdrawn until the last block before it. All else needs its notice.
func TestUpgradesAreWithdrawn(t *testing.T) {
	w := newWorld(t, 4, 0, withAdmin)
	a, none := common.Hash{0xa}, common.Hash{}
	require.NoError(t, w.decide(UpgradeCall(100, "n", a)))
	require.ErrorContains(t, w.decide(UpgradeCall(100, "m", none)), "no such upgrade was decided")
	require.ErrorContains(t, w.decide(UpgradeCall(101, "n", none)), "no such upgrade was decided")
	w.height = 99
	require.ErrorContains(t, w.decide(UpgradeCall(100, "n", common.Hash{0xb})), "64 blocks after")
	require.ErrorContains(t, w.decide(ParameterCall(100, "n", none[:])), "64 blocks after")
	require.Equal(t, []Change{{100, ProposeUpgrade, 1, "n", a[:]}}, w.changes())
	require.NoError(t, w.decide(UpgradeCall(100, "n", none)))
	require.Equal(t, []Change{{100, ProposeUpgrade, 2, "n", none[:]}}, w.changes())
	w.height = 100
	require.ErrorContains(t, w.decide(UpgradeCall(100, "n", none)), "is in force")
}

// The list is bounded, in the contract and in what Go reads if other code let it grow. Parameters leave places for
// upgrades, and what has a place can be decided again whether or not the list is full.
func TestChangesAreBounded(t *testing.T) {
	w := newWorld(t, 4, 0, withAdmin)
	require.NoError(t, w.decide(ParameterCall(100, "a", []byte{1})))
	array := slotHash(slotChanges)
	w.state.SetState(MembersAddress, array, number(MaxChanges-UpgradePlaces-1).h)
	require.NoError(t, w.decide(ParameterCall(100, "b", []byte{2})))
	require.ErrorContains(t, w.decide(ParameterCall(100, "c", []byte{2})), "is full")
	require.NoError(t, w.decide(UpgradeCall(100, "u", common.Hash{1})))
	w.state.SetState(MembersAddress, array, number(MaxChanges-1).h)
	require.NoError(t, w.decide(UpgradeCall(100, "v", common.Hash{2})))
	require.ErrorContains(t, w.decide(UpgradeCall(100, "w", common.Hash{3})), "is full")
	require.ErrorContains(t, w.decide(ParameterCall(100, "c", []byte{2})), "is full")
	require.NoError(t, w.decide(ParameterCall(100, "b", []byte{3})))
	require.NoError(t, w.decide(UpgradeCall(100, "v", common.Hash{})))

	at := offset(element(array, 0, changeSlots), 1)
	w.state.SetState(MembersAddress, at, common.MaxHash)
	w.state.SetState(MembersAddress, array, common.MaxHash)
	got := w.changes()
	require.Len(t, got, MaxChanges)
	got = got[MaxChanges-4:]
	require.Equal(t, Change{Height: 100, Kind: ProposeParameter, Number: 1}, got[0], "a name that no program could have made")
	require.Equal(t, Change{100, ProposeUpgrade, 6, "v", make([]byte, 32)}, got[3])
	w.state.SetState(MembersAddress, at, common.HexToHash("0x40")) // short form, 32 bytes
	require.Empty(t, w.changes()[MaxChanges-4].Name)
}

func TestSettings(t *testing.T) {
	w := newWorld(t, 4, 0, nil)
	require.Equal(t, Settings{w.set.Seats, w.set.MinProducers, w.set.JailTurns, w.set.SlashPercent}, ReadSettings(w.state))
	x := Settings{Seats: 300, MinProducers: 301, JailTurns: 302, SlashPercent: 99}
	WriteSettings(w.state, x)
	require.Equal(t, x, ReadSettings(w.state))
	out, err := prods.UnpackSettings(w.readFrom(ProducersAddress, prods.PackSettings()))
	require.NoError(t, err)
	require.Equal(t, []any{uint64(testGenesis), uint64(500), uint64(100), x.Seats, x.MinProducers, x.JailTurns, x.SlashPercent},
		[]any{out.GenesisTime, out.SlotMillis, out.EpochBlocks, out.Seats, out.MinProducers, out.JailTurns, out.SlashPercent})
}
