package evidence

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/rlp"
	"github.com/syndtr/goleveldb/leveldb"
	"github.com/syndtr/goleveldb/leveldb/opt"
	"go.uber.org/zap"

	"github.com/bornode/bornode/contracts"
)

// commit is one call of the contract's commit, as it is kept until it is final.
type commit struct {
	Account     common.Address // whose commit it is
	Number      uint64
	Until       uint64 // the queue's entries below are in it
	Checkpoints [][32]byte
	Offsets     []sentOffset
	Data        []byte
}

type sentOffset struct {
	Group, Topic [32]byte
	Partition    uint32
	Offset       uint64
}

// member is an account in a tenant.
type member struct {
	tenant  [32]byte
	account common.Address
}

// charge is which kinds of an account's operations were reported as refused in a minute, as bits.
type charge struct {
	minute int64 // since 1970
	kinds  uint16
}

// outbox sends one commit after the other.
type outbox struct {
	e    *Evidence
	kick chan struct{}

	mu          sync.Mutex
	checkpoints map[[32]byte]contracts.Checkpoint // newest of each topic
	order       [][32]byte                        // of checkpoints, oldest first
	offsets     map[Offset]int64
	charged     map[member]charge // run's own
	sent        *commit           // under way
	done        uint64            // number of this account's newest commit that was final
	strange     uint64            // the most that the chain counted beyond those made here; an alarm told of it
}

func newOutbox(e *Evidence) (*outbox, error) {
	o := &outbox{e: e, kick: make(chan struct{}, 1), checkpoints: map[[32]byte]contracts.Checkpoint{}, offsets: map[Offset]int64{}, charged: map[member]charge{}}
	v, err := e.db.Get([]byte{keyDone}, nil)
	switch {
	case err == nil && len(v) == 8+common.AddressLength:
		if common.Address(v[8:]) == e.deps.Account { // the numbers of another account do not go on here
			o.done = binary.BigEndian.Uint64(v)
		}
	case err != nil && !errors.Is(err, leveldb.ErrNotFound):
		return nil, err
	}
	v, err = e.db.Get([]byte{keyCommit}, nil)
	switch {
	case errors.Is(err, leveldb.ErrNotFound):
		return o, nil
	case err != nil:
		return nil, err
	}
	o.sent = new(commit)
	if err := rlp.DecodeBytes(v, o.sent); err != nil {
		return nil, fmt.Errorf("the commit under way is damaged in %s; remove the directory, trees are made again from the log: %w", e.deps.Dir, err)
	}
	return o, nil
}

func (o *outbox) wake() {
	select {
	case o.kick <- struct{}{}:
	default:
	}
}

// checkpoint queues a checkpoint; an older one of the topic that was not sent yet is replaced.
func (o *outbox) checkpoint(c contracts.Checkpoint) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.checkpoints[c.Topic]; !ok {
		o.order = append(o.order, c.Topic)
	}
	o.checkpoints[c.Topic] = c
	o.e.m.checkpoints.Inc()
	o.wake()
}

// sending reports whether a checkpoint of the topic is under way.
func (o *outbox) sending(topic [32]byte) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.sent == nil {
		return false
	}
	for _, t := range o.sent.Checkpoints {
		if t == topic {
			return true
		}
	}
	return false
}

func (o *outbox) offset(k Offset, v int64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, ok := o.offsets[k]; !ok && len(o.offsets) >= maxOffsets || v < 0 {
		return false
	}
	o.offsets[k] = v
	return true
}

// run commits what there is: as soon as a commit is full, and once in a window.
func (o *outbox) run(ctx context.Context) {
	tick := time.NewTicker(o.e.cfg.Window)
	defer tick.Stop()
	wait, tries := retryLeast, 0
	for ctx.Err() == nil {
		if o.sent == nil {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			case <-o.kick:
			case <-o.e.ops.queued:
			}
		}
		err := o.once(ctx, tries >= plainTries)
		if err == nil {
			wait, tries = retryLeast, 0
			continue
		}
		if ctx.Err() != nil {
			return
		}
		tries++
		o.e.m.commitErrors.Inc()
		o.e.log.Warn("a commit of evidence was not taken; it is tried again", zap.Duration("in", wait), zap.Int("tries", tries), zap.Error(err))
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		wait = min(2*wait, retryMost)
	}
}

// once makes a commit, or takes the one under way, and sends it.
func (o *outbox) once(ctx context.Context, plain bool) error {
	last, err := o.e.deps.Ledger.Commits(ctx, o.e.deps.Account)
	if err != nil {
		return fmt.Errorf("ask for the number of commits: %w", err)
	}
	o.mu.Lock()
	c, done := o.sent, o.done
	o.mu.Unlock()
	if c != nil && c.Account != o.e.deps.Account {
		return o.former(ctx, c)
	}
	o.strangers(last, c)
	if last < done { // what is made under a number that is used would be taken for the one that used it
		return fmt.Errorf("the final state here counts %d commits of this broker, %d were final: the chain is catching up", last, done)
	}
	if c != nil && last >= c.Number {
		return o.counted(c)
	}
	switch {
	case c == nil:
		if c, err = o.make(last+1, maxCommitOperations, false); err != nil || c == nil {
			clear(o.charged) // nothing was reported
			return err
		}
	case plain:
		if c, err = o.again(c); err != nil || c == nil {
			return err
		}
	}
	if err := o.e.deps.Submit(ctx, "commit", c.Data); err != nil {
		return fmt.Errorf("commit %d with %d bytes: %w", c.Number, len(c.Data), err)
	}
	return o.confirm(ctx, c)
}

// former settles the commit that was under way when the broker got another account: it was counted, or what is in it goes
// out anew.
func (o *outbox) former(ctx context.Context, c *commit) error {
	last, err := o.e.deps.Ledger.Commits(ctx, c.Account)
	if err != nil {
		return fmt.Errorf("ask for the number of commits of %s: %w", c.Account, err)
	}
	if last >= c.Number {
		return o.counted(c)
	}
	o.e.log.Warn("a commit that was under way is made anew for another account", zap.Stringer("former", c.Account), zap.Uint64("number", c.Number))
	return o.forget()
}

// strangers raises an alarm when the chain counts commits that were not made here.
func (o *outbox) strangers(last uint64, c *commit) {
	o.mu.Lock()
	most := max(o.done, o.strange)
	if c != nil {
		most = max(most, c.Number)
	}
	if most == 0 || last <= most { // without any there is nothing to compare with: the folder may be new
		o.mu.Unlock()
		return
	}
	o.strange = last
	o.mu.Unlock()
	const text = "commits by this broker's account were not made here: somebody else has its key, or its folder is an old copy"
	o.e.log.Error(text+"; give the broker another account, by key_file and Members", zap.Uint64("counted", last), zap.Uint64("known", most))
	o.e.keep(Alarm{Partition: -1, Offset: -1, Text: text})
}

// forget drops the commit under way, not what was in it.
func (o *outbox) forget() error {
	if err := o.e.db.Delete([]byte{keyCommit}, &opt.WriteOptions{Sync: true}); err != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = nil
	clear(o.charged) // what it reported is reported again
	return nil
}

// confirm waits until the final state here counts the commit: it is final, but the view may be a moment behind.
func (o *outbox) confirm(ctx context.Context, c *commit) error {
	tick := time.NewTicker(retryLeast / 10)
	defer tick.Stop()
	ctx, cancel := context.WithTimeout(ctx, retryMost)
	defer cancel()
	for {
		last, err := o.e.deps.Ledger.Commits(ctx, o.e.deps.Account)
		if err == nil && last >= c.Number {
			return o.counted(c)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("commit %d was sent, but the final state does not count it", c.Number)
		case <-tick.C:
		}
	}
}

// again makes a commit that is refused anew, with its operations alone: exactly those, since the one before may still be
// taken and either counts for both. Its checkpoints are made again by the notary.
func (o *outbox) again(c *commit) (*commit, error) {
	o.mu.Lock()
	clear(o.checkpoints)
	clear(o.charged)
	o.order = nil
	for _, x := range c.Offsets { // served by the coordinator meanwhile, committed again with the group's next
		delete(o.offsets, Offset{x.Group, x.Topic, int32(x.Partition)})
	}
	o.mu.Unlock()
	first, _, err := o.e.ops.peek(0)
	if err != nil {
		return nil, err
	}
	if n := int(c.Until - first); n > 0 {
		return o.make(c.Number, n, true)
	}
	return nil, o.forget() // nothing is left to send
}

// make packs a commit of at most this many operations and makes it durable; nil: there is nothing to commit.
func (o *outbox) make(number uint64, most int, plain bool) (*commit, error) {
	first, entries, err := o.e.ops.peek(most)
	if err != nil {
		return nil, err
	}
	p := newPacker(number, o.charged)
	n := 0
	for n < len(entries) && p.operation(&entries[n]) {
		n++
	}
	if plain && n < len(entries) {
		return nil, fmt.Errorf("only %d of %d operations fit", n, len(entries))
	}
	c := &commit{Account: o.e.deps.Account, Number: number, Until: first + uint64(n)}
	o.mu.Lock()
	if !plain {
		for _, t := range o.order {
			if !p.checkpoint(o.checkpoints[t]) {
				break
			}
			c.Checkpoints = append(c.Checkpoints, t)
		}
		for k, v := range o.offsets {
			if !p.offset(k, v) {
				break
			}
			c.Offsets = append(c.Offsets, sentOffset{k.Group, k.Topic, uint32(k.Partition), uint64(v)})
		}
	}
	o.mu.Unlock()
	if n == 0 && len(c.Checkpoints) == 0 && len(c.Offsets) == 0 {
		return nil, nil //nolint:nilnil // nothing to do
	}
	if c.Data, err = p.pack(); err != nil {
		return nil, fmt.Errorf("pack commit %d: %w", number, err)
	}
	v, err := rlp.EncodeToBytes(c)
	if err != nil {
		return nil, err
	}
	if err := o.e.db.Put([]byte{keyCommit}, v, &opt.WriteOptions{Sync: true}); err != nil {
		return nil, fmt.Errorf("keep commit %d: %w", number, err)
	}
	o.mu.Lock()
	o.sent = c
	o.mu.Unlock()
	return c, nil
}

// counted forgets a commit that is final, with what was in it.
func (o *outbox) counted(c *commit) error {
	var w leveldb.Batch
	w.Delete([]byte{keyCommit})
	w.Put([]byte{keyDone}, append(binary.BigEndian.AppendUint64(nil, c.Number), c.Account[:]...))
	o.e.ops.drop(&w, c.Until)
	if err := o.e.db.Write(&w, &opt.WriteOptions{Sync: true}); err != nil {
		return fmt.Errorf("forget commit %d: %w", c.Number, err)
	}
	o.e.ops.dropped(c.Until)
	o.e.m.commits.Inc()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.sent = nil
	if c.Account == o.e.deps.Account {
		o.done = c.Number
	}
	for _, t := range c.Checkpoints {
		delete(o.checkpoints, t)
	}
	keep := o.order[:0]
	for _, t := range o.order {
		if _, ok := o.checkpoints[t]; ok {
			keep = append(keep, t)
		}
	}
	o.order = keep
	for _, x := range c.Offsets {
		k := Offset{x.Group, x.Topic, int32(x.Partition)}
		if v, ok := o.offsets[k]; ok && uint64(v) == x.Offset {
			delete(o.offsets, k)
		}
	}
	if len(o.order) > 0 || len(o.offsets) > 0 {
		o.wake()
	}
	return nil
}

// packer gathers what fits into one commit.
type packer struct {
	number      uint64
	charged     map[member]charge // the outbox's
	checkpoints []contracts.Checkpoint
	operations  []contracts.Operations
	topics      map[[32]byte]int
	standings   []contracts.Standing
	accounts    map[member]int
	offsets     []contracts.Offset
	weight      int
	entries     int // bytes
	size        int // of the call data, at most
}

func newPacker(number uint64, charged map[member]charge) *packer {
	return &packer{number: number, charged: charged, topics: map[[32]byte]int{}, accounts: map[member]int{}, size: 4 + 5*32 + 4*32}
}

// operation adds an entry, with what it means for its account's standing, if there is room.
func (p *packer) operation(x *entry) bool {
	b := x.op.Append(nil)
	weight, size := 0, len(b)
	i, known := p.topics[x.topic]
	if !known {
		weight, size = 1, size+5*32+31
	}
	_, judged := p.accounts[member{x.tenant, x.op.Operator}]
	judge := p.counts(x)
	if judge && !judged {
		if len(p.standings) == maxCommitStandings {
			return false
		}
		weight, size = weight+1, size+4*32
	}
	if p.weight+weight > maxCommitWeight || p.entries+len(b) > maxCommitEntries || p.size+size > maxCommitBytes {
		return false
	}
	p.weight, p.entries, p.size = p.weight+weight, p.entries+len(b), p.size+size
	if !known {
		i = len(p.operations)
		p.topics[x.topic] = i
		p.operations = append(p.operations, contracts.Operations{Topic: x.topic})
	}
	o := &p.operations[i]
	o.Count++
	o.Entries = append(o.Entries, b...)
	if judge {
		p.judge(x, judged)
	}
	return true
}

// counts tells whether the contract is to be told of the entry's operator: of honest work, and of a kind of operation that
// was refused once in a minute. It charges no more, and clients that try again and again would fill the commits.
func (p *packer) counts(x *entry) bool {
	switch {
	case x.tenant == [32]byte{}:
		return false
	case !x.op.Refused():
		return true
	}
	c := p.charged[member{x.tenant, x.op.Operator}]
	kind := refusedKind(x)
	return kind != 0 && (c.minute != minuteOf(x) || c.kinds&kind == 0)
}

func (p *packer) judge(x *entry, judged bool) {
	m := member{x.tenant, x.op.Operator}
	if !judged {
		p.accounts[m] = len(p.standings)
		p.standings = append(p.standings, contracts.Standing{Tenant: x.tenant, Account: x.op.Operator})
	}
	s := &p.standings[p.accounts[m]]
	if !x.op.Refused() {
		s.Honest = uint32(min(uint64(s.Honest)+uint64(x.op.Count), 1<<32-1))
		return
	}
	s.Refused |= refusedKind(x)
	c, known := p.charged[m]
	if c.minute != minuteOf(x) {
		c = charge{minute: minuteOf(x)}
	}
	c.kinds |= refusedKind(x)
	if !known && len(p.charged) >= maxCharged {
		clear(p.charged)
	}
	p.charged[m] = c
}

// refusedKind is the bit of an operation's kind, 0 if its refusal is not charged; minuteOf is when it was last done.
func refusedKind(x *entry) uint16 {
	if x.op.Kind >= 16 {
		return 0
	}
	return 1 << x.op.Kind & contracts.RefusedKinds
}

func minuteOf(x *entry) int64 { return x.op.End / time.Minute.Milliseconds() }

func (p *packer) checkpoint(c contracts.Checkpoint) bool {
	if p.weight >= maxCommitWeight || len(p.checkpoints) == maxCommitCheckpoints || p.size+4*32 > maxCommitBytes {
		return false
	}
	p.weight, p.size = p.weight+1, p.size+4*32
	p.checkpoints = append(p.checkpoints, c)
	return true
}

func (p *packer) offset(k Offset, v int64) bool {
	if p.weight >= maxCommitWeight || len(p.offsets) == maxCommitOffsets || p.size+4*32 > maxCommitBytes {
		return false
	}
	p.weight, p.size = p.weight+1, p.size+4*32
	p.offsets = append(p.offsets, contracts.Offset{Group: k.Group, Topic: k.Topic, Partition: uint32(k.Partition), Offset: v})
	return true
}

func (p *packer) pack() ([]byte, error) {
	return contracts.CommitCall(contracts.Commit{Number: p.number, Checkpoints: p.checkpoints, Operations: p.operations, Standings: p.standings, Offsets: p.offsets})
}

func seqKey(letter byte, topic [32]byte, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte{letter}, topic[:]...), seq)
}
