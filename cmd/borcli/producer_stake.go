package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
)

// accountArgument is the account of the first argument, or the one that signs.
func (a *app) accountArgument(ctx context.Context, args []string) (common.Address, error) {
	if len(args) == 0 {
		return a.sender(ctx)
	}
	who, err := parseAddress(args[0])
	if err != nil {
		return who, fail(exitUsage, "ACCOUNT: %v", err)
	}
	return who, nil
}

func positiveAmount(text string) (*big.Int, error) {
	v, err := parseAmount(text)
	if err != nil {
		return nil, fail(exitUsage, "AMOUNT: %v", err)
	}
	if v.Sign() == 0 || v.BitLen() > contracts.MaxStakeBits {
		return nil, fail(exitUsage, "AMOUNT %q: give more than 0 and less than 2^%d wei", text, contracts.MaxStakeBits)
	}
	return v, nil
}

// publicKeys are a producer's, with the proof that it holds the secret one.
type publicKeys struct {
	Account common.Address
	Key     block.BLSKey
	Proof   block.BLSSignature
}

// publicKeys reads them from the JSON that bornode init prints, or makes them of the node's own key file.
func (a *app) publicKeys(ctx context.Context, path string) (*publicKeys, error) {
	chainID, err := a.chainID(ctx)
	if err != nil {
		return nil, err
	}
	if path == "" {
		if a.Key == "" {
			return nil, fail(exitUsage, "name the producer's keys: --key NODE/keys/producer.json, or --keys with the JSON that bornode init --producer prints")
		}
		noDumps()
		s, err := signer.Load(a.Key)
		if err != nil {
			return nil, fail(exitUsage, "--key %s is no node's producer.json (%w); for another kind of key give --keys with the JSON that bornode init --producer prints", a.Key, err)
		}
		return &publicKeys{s.Account(), s.VoteKey(), s.ProvePossession(chainID.Uint64())}, nil
	}
	k, err := readPublicKeys(path)
	if err != nil {
		return nil, err
	}
	digest := block.PossessionDigest(chainID.Uint64(), k.Account, k.Key)
	if !bls.Verify(k.Key, digest[:], k.Proof) {
		return nil, fail(exitUsage, "the proof in %s does not hold for account %s on chain %s: run bornode init --producer --genesis FILE in the node's folder again with this network's genesis file, and take what it prints", path, k.Account, chainID)
	}
	return k, nil
}

func readPublicKeys(path string) (*publicKeys, error) {
	b, err := readFile(path, maxKeysBytes)
	if err != nil {
		return nil, fail(exitUsage, "--keys: %w", err)
	}
	var x struct {
		Account *common.Address `json:"account"`
		Key     hexutil.Bytes   `json:"bls_key"`
		Proof   hexutil.Bytes   `json:"proof"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, fail(exitUsage, "--keys: %s is not the JSON that bornode init --producer prints (%w)", path, err)
	}
	k := new(publicKeys)
	if x.Account == nil || len(x.Key) != len(k.Key) || len(x.Proof) != len(k.Proof) {
		return nil, fail(exitUsage, "--keys: %s lacks account, bls_key (%d bytes) or proof (%d bytes): give what bornode init --producer prints", path, len(k.Key), len(k.Proof))
	}
	k.Account, k.Key, k.Proof = *x.Account, block.BLSKey(x.Key), block.BLSSignature(x.Proof)
	return k, nil
}

// registration is the call data that registers keys.
func (k *publicKeys) registration() ([]byte, error) {
	raw, err := bls.UncompressG1(k.Key)
	if err != nil {
		return nil, fail(exitUsage, "the BLS key is no point of the curve: take what bornode init --producer prints")
	}
	proof, err := bls.UncompressG2(k.Proof)
	if err != nil {
		return nil, fail(exitUsage, "the proof is no point of the curve: take what bornode init --producer prints")
	}
	return contracts.RegisterCall(k.Key[:], raw, proof)
}

// register deposits what is missing of the minimum stake, if told to, and registers the keys.
func (a *app) register(ctx context.Context, path, stake string) error {
	k, err := a.publicKeys(ctx, path)
	if err != nil {
		return err
	}
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	if from != k.Account {
		return fail(exitUsage, "the keys are of account %s, you sign as %s: sign as the keys' account (--from, or --key with its key)", k.Account, from)
	}
	data, err := k.registration()
	if err != nil {
		return err
	}
	p, err := a.mayRegister(ctx, k)
	if err != nil {
		return err
	}
	if err := a.depositMissing(ctx, p, stake); err != nil {
		return err
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: data, What: "register BLS key " + hexutil.Encode(k.Key[:])})
	if err != nil {
		return err
	}
	return a.tell(s, "registered; it needs votes (borcli producer vote %s AMOUNT), and a running node that reports as a standby", k.Account)
}

// mayRegister sees beforehand what the contract would refuse.
func (a *app) mayRegister(ctx context.Context, k *publicKeys) (*producerInfo, error) {
	p, err := a.producer(ctx, k.Account)
	if err != nil {
		return nil, err
	}
	var owner common.Address
	var may bool
	at, err := a.newest(ctx)
	if err != nil {
		return nil, err
	}
	if err := a.readAll(ctx, at, ofProducers(&owner, producersABI.PackKeyOwner(k.Key[:]), producersABI.UnpackKeyOwner),
		ofMembers(&may, membersABI.PackMayProduce(k.Account), membersABI.UnpackMayProduce)); err != nil {
		return nil, err
	}
	switch {
	case p.candidate.Guilty:
		return nil, fail(exitRefused, "%s was proven guilty and never produces again: take another account with new keys", k.Account)
	case owner == k.Account && p.candidate.Resigned:
		return nil, fail(exitRefused, "this key of %s is registered already and the account has resigned; take the candidacy up again with: borcli producer rejoin", k.Account)
	case owner == k.Account:
		return nil, fail(exitRefused, "this key of %s is registered already; its state is: %s", k.Account, p.stateText())
	case owner != (common.Address{}):
		return nil, fail(exitRefused, "this key was registered by %s: make new keys with bornode init --producer in a new folder", owner)
	case p.candidate.Seated != 0:
		// In the phase of both schedules votes count once under each: one node has one key, so a seat that changes its key
		// under its holder would be silent in one of the two.
		return nil, fail(exitRefused, "%s sits in a schedule with its present keys, and the keys of an account cannot be changed yet: make a new account with bornode init --producer in a new folder, have it admitted and register it; then resign with this one (borcli producer resign)", k.Account)
	case !may:
		return nil, fail(exitRefused, "no member node of %s has the producer role: have it admitted first: borcli member add PEER --roles producer --account %s", k.Account, k.Account)
	}
	return p, nil
}

// depositMissing brings the stake to the minimum, or says what is missing.
func (a *app) depositMissing(ctx context.Context, p *producerInfo, stake string) error {
	missing := new(big.Int).Sub(p.settings.MinStake, p.account.Stake)
	if missing.Sign() <= 0 {
		if stake != "" {
			a.note("the account has the minimum stake already: nothing is deposited")
		}
		return nil
	}
	if stake == "" {
		return fail(exitRefused, "%s has %s of its own stake, a candidate needs %s: add --stake %s", p.Account, ether(p.account.Stake), ether(p.settings.MinStake), amountText(missing))
	}
	amount, err := positiveAmount(stake)
	if err != nil {
		return err
	}
	if amount.Cmp(missing) < 0 {
		return fail(exitUsage, "--stake %s is too little: %s of its own stake and a minimum of %s leave %s to be deposited", stake, ether(p.account.Stake), ether(p.settings.MinStake), ether(missing))
	}
	_, err = a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Value: amount, Data: producersABI.PackDeposit(), What: "deposit " + ether(amount) + " as stake"})
	return err
}

func (a *app) deposit(ctx context.Context, text string) error {
	amount, err := positiveAmount(text)
	if err != nil {
		return err
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Value: amount, Data: producersABI.PackDeposit(), What: "deposit " + ether(amount) + " as stake"})
	if err != nil {
		return err
	}
	return a.tell(s, "give it as votes with: borcli producer vote ACCOUNT %s", amountText(amount))
}

func (a *app) vote(ctx context.Context, account, text string) error {
	who, err := parseAddress(account)
	if err != nil {
		return fail(exitUsage, "ACCOUNT: %v", err)
	}
	amount, err := positiveAmount(text)
	if err != nil {
		return err
	}
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	r, err := a.registry(ctx)
	if err != nil {
		return err
	}
	list, err := a.producers(ctx, r, []common.Address{from, who}, false)
	if err != nil {
		return err
	}
	me, candidate := list[0], list[1]
	if candidate.candidate.Place == 0 {
		return fail(exitNotFound, "%s is no candidate; borcli producer list shows them", who)
	}
	if free := me.free(); free.Cmp(amount) < 0 {
		return fail(exitRefused, "%s has %s of free stake: deposit %s more (borcli producer stake %s), or take votes back", from, ether(free),
			ether(new(big.Int).Sub(amount, free)), amountText(new(big.Int).Sub(amount, free)))
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: producersABI.PackVote(who, amount), What: fmt.Sprintf("give %s as votes to %s", ether(amount), who)})
	if err != nil {
		return err
	}
	if candidate.State == "guilty" || candidate.State == "resigned" {
		return a.tell(s, "%s is %s: these votes elect nobody", who, candidate.State)
	}
	return a.tell(s, "votes count at the end of the epoch")
}

func (a *app) unvote(ctx context.Context, args []string, all bool) error {
	if (len(args) == 2) == all {
		return fail(exitUsage, "say how many votes to take back: an AMOUNT, or --all")
	}
	who, err := parseAddress(args[0])
	if err != nil {
		return fail(exitUsage, "ACCOUNT: %v", err)
	}
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	me, err := a.producer(ctx, from)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(me.Given, func(g votesFor) bool { return g.Producer == who })
	if i < 0 {
		return fail(exitNotFound, "%s gives no votes to %s; borcli producer show %s tells to whom", from, who, from)
	}
	amount := me.Given[i].amount
	if !all {
		if amount, err = positiveAmount(args[1]); err != nil {
			return err
		}
		if amount.Cmp(me.Given[i].amount) > 0 {
			return fail(exitRefused, "%s gives %s to %s, no more can be taken back", from, ether(me.Given[i].amount), who)
		}
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: producersABI.PackUnvote(who, amount), What: fmt.Sprintf("take %s of votes back from %s", ether(amount), who)})
	if err != nil {
		return err
	}
	return a.tell(s, "the stake is free again")
}

func (a *app) withdraw(ctx context.Context, args []string, all, pay bool) error {
	given := 0
	for _, x := range []bool{len(args) == 1, all, pay} {
		if x {
			given++
		}
	}
	if given != 1 {
		return fail(exitUsage, "say what to withdraw: an AMOUNT or --all asks for it, --pay pays what was asked for before")
	}
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	me, err := a.producer(ctx, from)
	if err != nil {
		return err
	}
	if pay {
		return a.payOut(ctx, me)
	}
	amount, err := me.withdrawable(args)
	if err != nil {
		return err
	}
	if me.account.Leaving.Sign() > 0 {
		if err := a.confirm(ctx, true, "%s is leaving already: %s. A second request starts the delay anew for both. Go on?", ether(me.account.Leaving), me.payText()); err != nil {
			return err
		}
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: producersABI.PackRequestWithdrawal(amount), What: "ask for " + ether(amount) + " of stake back"})
	if err != nil {
		return err
	}
	if me, err = a.producer(ctx, from); err != nil {
		return err
	}
	if s.Receipt == nil {
		return a.tell(s, "borcli producer show tells when it can be paid")
	}
	return a.tell(s, "%s is leaving: %s", ether(me.account.Leaving), me.payText())
}

// withdrawable is the amount to ask for: all that is free, or the argument if there is so much.
func (p *producerInfo) withdrawable(args []string) (*big.Int, error) {
	c := &p.candidate
	free, bound := p.free(), ""
	if c.Key != 0 && !c.Resigned && !c.Guilty {
		above := new(big.Int).Sub(p.account.Stake, p.settings.MinStake)
		if above.Cmp(free) < 0 {
			free, bound = above, fmt.Sprintf(" above the minimum of %s that a candidate keeps (borcli producer resign gives the candidacy up)", ether(p.settings.MinStake))
		}
	}
	if free.Sign() <= 0 {
		return nil, fail(exitRefused, "%s has no free stake%s; take votes back first: borcli producer unvote ACCOUNT --all", p.Account, bound)
	}
	if len(args) == 0 {
		return free, nil
	}
	amount, err := positiveAmount(args[0])
	if err != nil {
		return nil, err
	}
	if amount.Cmp(free) > 0 {
		return nil, fail(exitRefused, "%s has %s of free stake%s: ask for less, or take votes back first", p.Account, ether(free), bound)
	}
	return amount, nil
}

func (a *app) payOut(ctx context.Context, me *producerInfo) error {
	c := &me.candidate
	switch {
	case me.account.Leaving.Sign() == 0:
		return fail(exitRefused, "%s asked for nothing: ask first with borcli producer withdraw AMOUNT", me.Account)
	case (c.Resigned || c.Guilty) && c.Seated != 0, me.PayableAt > me.now:
		return fail(exitRefused, "the delay is not over: %s of %s, %s", ether(me.account.Leaving), me.Account, me.payText())
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: producersABI.PackWithdraw(), What: "pay " + ether(me.account.Leaving) + " out"})
	if err != nil {
		return err
	}
	return a.tell(s, "paid %s to %s", ether(me.account.Leaving), me.Account)
}

// plainDuty sends a call without arguments for the own account, unless check sees that it would be refused.
func (a *app) plainDuty(ctx context.Context, what, next string, data []byte, check func(*producerInfo) error) error {
	from, err := a.sender(ctx)
	if err != nil {
		return err
	}
	me, err := a.producer(ctx, from)
	if err != nil {
		return err
	}
	if err := check(me); err != nil {
		return err
	}
	s, err := a.govern(ctx, txRequest{To: &contracts.ProducersAddress, Data: data, What: what})
	if err != nil {
		return err
	}
	return a.tell(s, "%s", next)
}

func (p *producerInfo) refuse(format string, args ...any) error {
	return fail(exitRefused, "%s %s", p.Account, fmt.Sprintf(format, args...))
}

func canResign(p *producerInfo) error {
	if p.candidate.Key == 0 || p.candidate.Resigned {
		return p.refuse("is no candidate: its state is %q", p.State)
	}
	return nil
}

func canRejoin(p *producerInfo) error {
	switch {
	case p.candidate.Key == 0:
		return p.refuse("never registered: borcli producer register")
	case p.candidate.Guilty:
		return p.refuse("was proven guilty and never produces again")
	case !p.candidate.Resigned:
		return p.refuse("has not resigned: its state is %q", p.State)
	case p.account.Stake.Cmp(p.settings.MinStake) < 0:
		missing := new(big.Int).Sub(p.settings.MinStake, p.account.Stake)
		return p.refuse("needs %s more of its own stake first: borcli producer stake %s", ether(missing), amountText(missing))
	}
	return nil
}

func canUnjail(p *producerInfo) error {
	switch {
	case p.JailedUntil == 0:
		return p.refuse("is not in jail: its state is %q", p.State)
	case p.JailedUntil > p.now:
		return p.refuse("stays in jail until %s: the delay is not over", when(p.JailedUntil, p.now))
	}
	return nil
}

func canReport(p *producerInfo) error {
	switch {
	case p.candidate.Seated&1 != 0:
		return p.refuse("has a seat: only candidates without one report")
	case p.State != "standby":
		return p.refuse("cannot report: its state is %q", p.stateText())
	case p.Reported:
		return p.refuse("reported in this epoch already")
	}
	return nil
}
