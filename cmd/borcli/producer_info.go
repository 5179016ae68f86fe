package main

import (
	"context"
	"fmt"
	"io"
	"math/big"
	"slices"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"

	"github.com/bornode/bornode/contracts"
)

// votesFor is a part of an account's stake that is given to a candidate.
type votesFor struct {
	Producer common.Address `json:"producer"`
	Amount   string         `json:"amount"` // wei
	amount   *big.Int
}

// producerInfo is what the chain knows of an account as a candidate and as an owner of stake. Amounts are in wei.
type producerInfo struct {
	Account     common.Address `json:"account"`
	State       string         `json:"state"`
	Seat        *int           `json:"seat"` // in the schedule that produces now; null: none
	Votes       string         `json:"votes"`
	Stake       string         `json:"stake"` // own, votes given included
	Free        string         `json:"free"`  // stake that is not given as votes
	Leaving     string         `json:"leaving"`
	PayableAt   uint64         `json:"payableAt,omitempty"` // Unix seconds; of what is leaving
	JailedUntil uint64         `json:"jailedUntil,omitempty"`
	Reported    bool           `json:"reported"` // in this epoch
	Missed      uint64         `json:"missedTurns"`
	Key         hexutil.Bytes  `json:"key"`
	Given       []votesFor     `json:"votesGiven,omitempty"`

	candidate contracts.BaseCandidate
	account   contracts.BaseAccount
	settings  *contracts.BaseSettings
	now       uint64
}

func (p *producerInfo) free() *big.Int { return new(big.Int).Sub(p.account.Stake, p.account.Voted) }

// registry is what is read once for all candidates.
type registry struct {
	at       *place
	settings contracts.BaseSettings
	epoch    uint64
	seats    []common.Address // of the schedule that produces now
}

func (a *app) registry(ctx context.Context) (*registry, error) {
	r := new(registry)
	var err error
	if r.at, err = a.newest(ctx); err != nil {
		return nil, err
	}
	var seats []struct {
		Account common.Address `json:"account"`
	}
	if err := a.ask(ctx, &seats, "bor_producers"); err != nil {
		return nil, err
	}
	for _, s := range seats {
		r.seats = append(r.seats, s.Account)
	}
	return r, a.readAll(ctx, r.at, ofProducers(&r.settings, producersABI.PackSettings(), producersABI.UnpackSettings),
		ofProducers(&r.epoch, producersABI.PackEpoch(), producersABI.UnpackEpoch))
}

// producers reads accounts; ballots too if wanted.
func (a *app) producers(ctx context.Context, r *registry, accounts []common.Address, ballots bool) ([]*producerInfo, error) {
	out := make([]*producerInfo, len(accounts))
	given := make([][]contracts.BaseBallot, len(accounts))
	var list []read
	for i, who := range accounts {
		p := &producerInfo{Account: who, settings: &r.settings, now: uint64(r.at.Time)}
		out[i] = p
		list = append(list,
			read{contracts.ProducersAddress, producersABI.PackCandidate(who), func(answer []byte) (err error) {
				p.candidate, p.Key, err = decodeCandidate(answer)
				return err
			}},
			ofProducers(&p.account, producersABI.PackStakeOf(who), producersABI.UnpackStakeOf))
		if ballots {
			list = append(list, ofProducers(&given[i], producersABI.PackBallots(who), producersABI.UnpackBallots))
		}
	}
	if err := a.readAll(ctx, r.at, list...); err != nil {
		return nil, err
	}
	for i, p := range out {
		for _, b := range given[i] {
			p.Given = append(p.Given, votesFor{b.Producer, b.Amount.String(), b.Amount})
		}
		p.finish(r)
	}
	return out, nil
}

func decodeCandidate(answer []byte) (contracts.BaseCandidate, []byte, error) {
	return contracts.DecodeCandidate(answer)
}

// finish puts what was read into words.
func (p *producerInfo) finish(r *registry) {
	c, s := &p.candidate, &p.account
	p.Votes, p.Stake, p.Free, p.Leaving = c.Votes.String(), s.Stake.String(), p.free().String(), s.Leaving.String()
	p.Missed, p.JailedUntil = c.Missed, c.JailedUntil
	p.Reported = c.Reported == r.epoch+1
	if s.Leaving.Sign() > 0 {
		p.PayableAt = s.ReadyAt
		if (c.Resigned || c.Guilty) && c.Seated == 0 {
			p.PayableAt = max(p.PayableAt, c.LeftAt+r.settings.WithdrawSeconds)
		}
	}
	if i := slices.Index(r.seats, p.Account); i >= 0 {
		p.Seat = &i
	}
	p.State = p.state()
}

// state is one word or two.
func (p *producerInfo) state() string {
	c := &p.candidate
	elected := c.Seated&1 != 0
	switch {
	case c.Key == 0:
		return "not registered"
	case c.Guilty:
		return "guilty"
	case c.Resigned:
		return "resigned"
	case c.JailedUntil != 0:
		return "jailed"
	case elected && p.Seat == nil:
		return "elected" // the change of schedule is under way
	case elected:
		return "active"
	case p.Seat != nil:
		return "leaving"
	case p.account.Stake.Cmp(p.settings.MinStake) < 0:
		return "too little stake"
	case c.Votes.Sign() == 0:
		return "no votes"
	}
	return "standby"
}

// stateText is the state for people, with times.
func (p *producerInfo) stateText() string {
	switch {
	case p.candidate.Guilty && p.candidate.Seated&1 != 0:
		return fmt.Sprintf("guilty, has its seat until an epoch ends with %d others who are fit", p.settings.MinProducers)
	case p.State != "jailed":
		return p.State
	case p.JailedUntil > p.now:
		return "jailed until " + when(p.JailedUntil, p.now)
	}
	return "jailed, may leave"
}

func (a *app) listProducers(ctx context.Context) error {
	r, err := a.registry(ctx)
	if err != nil {
		return err
	}
	var accounts []common.Address
	if err := a.readAll(ctx, r.at, ofProducers(&accounts, producersABI.PackCandidates(), producersABI.UnpackCandidates)); err != nil {
		return err
	}
	for _, s := range r.seats {
		if !slices.Contains(accounts, s) {
			accounts = append(accounts, s)
		}
	}
	list, err := a.producers(ctx, r, accounts, false)
	if err != nil {
		return err
	}
	slices.SortStableFunc(list, func(x, y *producerInfo) int {
		if (x.Seat != nil) != (y.Seat != nil) {
			return map[bool]int{true: -1, false: 1}[x.Seat != nil]
		}
		if x.Seat != nil {
			return *x.Seat - *y.Seat
		}
		return y.candidate.Votes.Cmp(x.candidate.Votes)
	})
	return a.show(list, func(w io.Writer) {
		rows := make([][]string, len(list))
		for i, p := range list {
			rows[i] = []string{p.Account.Hex(), p.seatText(), p.stateText(), ether(p.candidate.Votes), ether(p.account.Stake), p.reportText(), fmt.Sprint(p.Missed)}
		}
		columns(w, []string{"ACCOUNT", "SEAT", "STATE", "VOTES", "OWN STAKE", "REPORTED", "MISSED TURNS"}, rows)
	})
}

func (p *producerInfo) seatText() string {
	if p.Seat == nil {
		return "-"
	}
	return fmt.Sprint(*p.Seat)
}

// reportText: only who has no seat reports.
func (p *producerInfo) reportText() string {
	switch {
	case p.Reported:
		return "yes"
	case p.State == "standby":
		return "no"
	}
	return "-"
}

func (a *app) showProducer(ctx context.Context, who common.Address) error {
	p, err := a.producer(ctx, who)
	if err != nil {
		return err
	}
	return a.show(p, p.table)
}

// producer reads one account with the votes it gave.
func (a *app) producer(ctx context.Context, who common.Address) (*producerInfo, error) {
	r, err := a.registry(ctx)
	if err != nil {
		return nil, err
	}
	list, err := a.producers(ctx, r, []common.Address{who}, true)
	if err != nil {
		return nil, err
	}
	return list[0], nil
}

func (p *producerInfo) table(w io.Writer) {
	rows := []pair{{"account", p.Account.Hex()}, {"state", p.stateText()}, {"seat", p.seatText()}, {"votes", ether(p.candidate.Votes)},
		{"own stake", fmt.Sprintf("%s, %s of it free", ether(p.account.Stake), ether(p.free()))}}
	if p.State == "standby" {
		rows = append(rows, pair{"reported", p.reportText() + " (in this epoch)"})
	}
	if p.account.Leaving.Sign() > 0 {
		rows = append(rows, pair{"leaving", fmt.Sprintf("%s, %s", ether(p.account.Leaving), p.payText())})
	}
	for _, g := range p.Given {
		rows = append(rows, pair{"votes for", g.Producer.Hex() + ": " + ether(g.amount)})
	}
	if p.candidate.Key != 0 {
		rows = append(rows, pair{"missed turns", fmt.Sprint(p.Missed)}, pair{"BLS key", p.Key.String()})
	}
	lines(w, rows...)
	if next := p.advice(); next != "" {
		fmt.Fprintln(w, next)
	}
}

// payText says when what is leaving can be paid.
func (p *producerInfo) payText() string {
	switch {
	case (p.candidate.Resigned || p.candidate.Guilty) && p.candidate.Seated != 0:
		return "paid at the earliest " + span(p.settings.WithdrawSeconds) + " after the account is out of every schedule that counts"
	case p.PayableAt > p.now:
		return "can be paid from " + when(p.PayableAt, p.now) + " on"
	}
	return "can be paid now: borcli producer withdraw --pay"
}

// advice is what the account's owner may want to do next.
func (p *producerInfo) advice() string {
	switch p.State {
	case "jailed":
		if p.JailedUntil <= p.now {
			return "leave jail with: borcli producer unjail"
		}
	case "no votes":
		return fmt.Sprintf("it needs votes: borcli producer vote %s AMOUNT", p.Account)
	case "too little stake":
		missing := new(big.Int).Sub(p.settings.MinStake, p.account.Stake)
		return fmt.Sprintf("it needs %s more of its own stake: borcli producer stake %s", ether(missing), amountText(missing))
	case "standby":
		if !p.Reported {
			return "it has to report in this epoch to be elected at its end: a running producer's node does that by itself, or: borcli producer report"
		}
	}
	return ""
}

// amountText writes an amount as parseAmount reads it.
func amountText(wei *big.Int) string {
	text := ether(wei)
	for i := range text {
		if text[i] == ' ' {
			return text[:i] + text[i+1:]
		}
	}
	return text
}
