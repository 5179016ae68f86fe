package model

// ballot is what one honest producer has voted.
type ballot struct{ prevotes, precommits mask }

// mayPrevote is rules 3 and 6: may a producer that cast these votes prevote block d, if it exists?
func (o *Options) mayPrevote(t *tree, c ballot, d int) bool {
	x := &t.v[d]
	if c.prevotes&bit(d) != 0 {
		return false
	}
	for b := 1; b <= t.n; b++ {
		if c.prevotes&bit(b) != 0 && (t.slot(b) > x.slot || t.slot(b) == x.slot && !o.Drop.SlotRule) {
			return false
		}
		if c.precommits&bit(b) != 0 && !o.Drop.LinkPrevote && t.crossed(b, d) {
			return false
		}
	}
	return true
}

// mayPrecommit is rules 5 and 6: may a producer that cast these votes precommit block b, if its QC exists?
func (o *Options) mayPrecommit(t *tree, c ballot, b int) bool {
	if c.precommits&bit(b) != 0 || c.prevotes == 0 {
		return false
	}
	newest, on := 0, false
	for d := 1; d <= t.n; d++ {
		if c.prevotes&bit(d) != 0 {
			if !o.Drop.LinkPrecommit && t.crossed(b, d) {
				return false
			}
			newest = t.slot(d)
		}
		if o.RisingPrecommits && c.precommits&bit(d) != 0 && t.slot(d) >= t.slot(b) {
			return false
		}
	}
	for d := 1; d <= t.n; d++ { // several newest ones only without the slot rule
		on = on || c.prevotes&bit(d) != 0 && t.slot(d) == newest && t.v[d].above&bit(b) != 0
	}
	return on
}

// crossed reports whether Precommit(b) and a prevote on d break the second of rule 6.
func (t *tree) crossed(b, d int) bool {
	return t.v[d].conflicts&bit(b) != 0 && t.slot(t.v[d].source) < t.slot(b) && t.slot(b) < t.slot(d)
}

// existing are the blocks whose parents and certificates exist.
func (t *tree) existing(qc, fc mask) (m mask) {
	for i := 1; i <= t.n; i++ {
		x := &t.v[i]
		if (x.parent == 0 || m&bit(x.parent) != 0) && (x.qc == 0 || qc&bit(x.qc) != 0) && (x.fc == 0 || fc&bit(x.fc) != 0) {
			m |= bit(i)
		}
	}
	return m
}

// counting are the schedules whose quorums a certificate on block i needs.
func (o *Options) counting(t *tree, i int) (old, new bool) {
	old, new = t.v[i].own.counts()
	if old && new {
		return !o.Drop.OldQuorum, !o.Drop.NewQuorum
	}
	return old, new
}

// sits reports whether the producer's votes on block i may count.
func (p party) sits(t *tree, i int) bool {
	old, new := t.v[i].own.counts()
	return old && p.old || new && p.new
}
