package dpos

import (
	"errors"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
)

// What a caller does about a refused header, certificate or event. Test with errors.Is; every error of Step, Check and
// the queries wraps one of them.
var (
	ErrInvalid       = errors.New("breaks a rule of consensus")                                           // penalise the sender
	ErrUnknownParent = errors.New("block is not known")                                                   // ask for the block that the error names
	ErrFuture        = errors.New("slot is ahead of the clock")                                           // drop; it may be sent again later
	ErrBelowLIB      = errors.New("at or below the last irreversible block, or on a branch that lost")    // drop
	ErrKnown         = errors.New("already known")                                                        // drop
	ErrRecovered     = errors.New("the chain was recovered, and this node has not applied that recovery") // penalise a peer that agreed about the recoveries
	ErrFull          = errors.New("no room for more side branches")                                       // drop; it may be sent again later
)

// Header is what the machine needs of a sealed header.
type Header struct {
	Hash, Parent common.Hash
	Height, Slot uint64
	Producer     common.Address
	QC, FC       *block.Certificate // from the consensus record; nil if absent
	Next         block.Schedule     // nil unless the record announces one
	Empty        bool               // no transactions
	Recovery     common.Hash        // that the record names: only in the first block behind a recovery's base; else zero
}

// Point names the block.
func (h Header) Point() block.Point { return block.Point{Slot: h.Slot, Hash: h.Hash} }

// HeaderOf takes from a sealed header what the machine needs. The producer is the header's Coinbase; that the seal is
// the producer's is for the caller to verify (Checks.Producer).
func HeaderOf(h *block.SealedHeader) Header {
	return Header{
		Hash: h.Hash(), Parent: h.Parent(), Height: h.Number(), Slot: h.Slot(), Producer: h.Header.Coinbase,
		QC: h.Record.QC, FC: h.Record.FC, Next: h.Record.Next, Empty: h.Header.TxHash == types.EmptyTxsHash,
		Recovery: h.Record.Recovery,
	}
}

// Event is one input of the machine: Tick, TimeSet, Clocks, Halt, HeaderEvent, Executed, Failed, VotesEvent, VerifiedVotesEvent,
// Tallied, CertificateEvent, RangeEvent, Begin, Renew, Heard, OwnSession, Accept or Built.
type Event interface{ event() }

type (
	// Tick says what time it is, since genesis; negative before genesis. An earlier time than the last is ignored.
	// It drives production, alarms and resending. Until the first Tick no slot is in the future and nothing is signed.
	Tick struct{ Now time.Duration }

	// TimeSet says that the time is this one, whatever it was before: it may go back. Before the first Tick a signer is
	// told by it which slots are in the future, and nothing else follows.
	TimeSet struct{ Now time.Duration }

	// Clocks says whether the clocks of a quorum of producers stand behind the time (rule 12); until it comes they do.
	// Without them no vote is cast, and no block sealed before four turns have passed since the start.
	Clocks struct{ Enough bool }

	// Halt ends signing for the life of the machine: something is proven that no rule allows for, such as two final
	// blocks of one height. It goes on following the chain.
	Halt struct{}

	// HeaderEvent enters a header into the tree: Check passed, all signatures that Checks names are verified, and the
	// body is stored durably (a vote for it may leave as soon as it is executed).
	HeaderEvent struct{ Header Header }

	// Executed says that the chain executed the block and found it valid: it may be prevoted.
	Executed struct{ Hash common.Hash }

	// Failed says that the block is invalid: it and its descendants leave the tree (Ready.Dropped) and stay out.
	Failed struct{ Hash common.Hash }

	// VotesEvent brings votes of others, their signatures NOT verified. Votes that cannot matter (old, far ahead, from
	// strangers, with a link the chain refutes, beyond the bounds) are dropped without an error. A genuine vote in our
	// own name that we did not cast silences us (rule 11).
	VotesEvent struct{ Votes []block.Vote }

	// VerifiedVotesEvent brings votes that JudgeVotes accepted and whose signatures were then verified, each for itself,
	// under the keys it named. It is treated as VotesEvent otherwise.
	VerifiedVotesEvent struct{ Votes []VerifiedVote }

	// Tallied answers one of Ready.Tallies, at any later time.
	Tallied struct {
		ID          uint64
		Certificate *block.Certificate // verified aggregate of the good votes, for Tally.Schedules; nil if they are no quorum
		Bad         []common.Address   // whose vote in the tally has a wrong signature
	}

	// CertificateEvent brings a certificate whose signatures were verified for CertificateSchedules: from a handshake,
	// or from the store after a restart.
	CertificateEvent struct{ Certificate *block.Certificate }

	// RangeEvent is catch-up: consecutive headers, the first a child of the LIB, and a precommit certificate for one of
	// them. All up to its target become final at once. Headers behind the target are ignored: they were not verified
	// in full; give them as HeaderEvents. The caller verified the signatures that RangeChecks names.
	RangeEvent struct {
		Headers     []Header
		Certificate *block.Certificate
	}

	// Begin begins a session (rule 11): the first one after a start, or one that Ready.Session asked for. It is recorded
	// before anything that names it may leave. What was heard before counts no more.
	Begin struct{ Session block.Session }

	// Renew says that this node may not be the one that it was when its session began, as a machine image that was
	// resumed is not: nothing is signed before a further session has been answered.
	Renew struct{}

	// Heard is what another node answered to a session of ours (rule 11). The caller verified that it is the producer's,
	// and all that it names. What it proves counts whatever the session; as an answer it counts for the present one.
	Heard struct {
		Producer  common.Address   // zero: an observer, who does not count
		Session   block.Session    // that it answers
		Height    uint64           // of the LIB that it showed
		Certified uint64           // slot of a block above our LIB that a verified certificate of its proves final; 0: none
		Justified uint64           // slot of the newest block that a verified certificate of its proves justified; 0: none
		Told      []block.ToldVote // genuine votes of ours, with genuine certificates. Those that the log lacks enter it, and silence us
		Sealed    uint64           // slot of a genuine seal of ours; 0: none
		Sessions  []block.Session  // genuine sessions of ours
	}

	// OwnSession is a genuine session of ours that was met otherwise: another instance of this producer runs, or did.
	OwnSession struct{ Session block.Session }

	// Accept is the operator's word that one answer fewer than a quorum of others suffices to vote again below the floor
	// that binds now (rule 11). Without a floor it does nothing.
	Accept struct{}

	// Built answers Ready.Produce. OK means that the block was sealed; it enters as a HeaderEvent of its own.
	Built struct {
		Slot uint64
		OK   bool
	}
)

func (Tick) event()               {}
func (TimeSet) event()            {}
func (Clocks) event()             {}
func (Halt) event()               {}
func (HeaderEvent) event()        {}
func (Executed) event()           {}
func (Failed) event()             {}
func (VotesEvent) event()         {}
func (VerifiedVotesEvent) event() {}
func (Tallied) event()            {}
func (CertificateEvent) event()   {}
func (RangeEvent) event()         {}
func (Begin) event()              {}
func (Renew) event()              {}
func (Heard) event()              {}
func (OwnSession) event()         {}
func (Accept) event()             {}
func (Built) event()              {}

// Checks is what remains to be verified of a header that passed Check: signatures.
type Checks struct {
	Producer     block.Producer // the seal must be by this Account
	Certificates []CertCheck    // each must verify
}

// CertCheck is a certificate and the schedules its bitmaps stand for: its signers are Certificate.Voters(Schedules).
// That they are a quorum is checked already.
type CertCheck struct {
	Certificate *block.Certificate
	Schedules   []block.Schedule
}

// Ready is what the machine wants done, in the order of the fields: a later duty may rely on the earlier ones. It is
// plain data owned by the receiver, who must not change certificates, schedules and the Root.
type Ready struct {
	Records  []SignRecord  // append to the WAL and sync before anything is signed for the duties below
	Votes    []block.Vote  // ours, unsigned: sign and broadcast. The machine pools them itself on Advance
	Produce  *Produce      // build, seal and broadcast a block; answer with Built
	Tallies  []Tally       // verify and aggregate; answer each with Tallied
	Head     common.Hash   // zero if unchanged; else the chain must make this branch the executed one
	Final    *Final        // the LIB moved
	Dropped  []common.Hash // blocks on losing branches, invalid or evicted: delete their bodies. One may enter again later
	Evidence []Evidence    // provable guilt, verified
	Resend   []block.Vote  // ours, signed before: broadcast again, newest first (LIB stuck, or a restart)
	Session  uint64        // begin a session of this number with a new nonce, and answer with Begin; 0: none
	Alarm    time.Duration // next Tick wanted at this time since genesis; 0: none
}

// Produce asks for a block.
type Produce struct {
	Slot      uint64
	Parent    common.Hash        // preferred head; if it is not executed yet, execute it first
	Height    uint64             // of the new block
	QC, FC    *block.Certificate // for the record
	EmptyOnly bool               // rule 10: no transactions
	Next      bool               // the record must carry the end-of-epoch call's schedule; if false it must not
	Recovery  common.Hash        // the record must name it: the block is the first behind a recovery's base; zero: it must name none
}

// Tally asks to verify votes on one link, of distinct voters, and to aggregate them. Our own vote in it has a zero
// signature unless it came back through VotesEvent: the driver puts in its own (BLS signatures are deterministic).
// A tally of fewer votes than a quorum only asks which are bad. What the driver verified before need not be verified again.
type Tally struct {
	ID        uint64
	Link      block.Link
	Schedules []block.Schedule // for the bitmaps of the certificate, and for the voters' keys
	Votes     []block.Vote
}

// Final says that the LIB moved.
type Final struct {
	Hashes []common.Hash // newly final, oldest first; the last is the new LIB
	Point  block.Point
	Height uint64
	FC     *block.Certificate // proves it
	QC     *block.Certificate // its prevotes; nil if only the FC is known
	Root   *Root              // persist with the LIB: New starts from it
	// Recovery is the one that proves it, where no FC does: the block is its base. Zero otherwise.
	Recovery common.Hash
}

// RecordKind tells what was signed.
type RecordKind uint8

const (
	RecordProduced  RecordKind = 1 // a block of Slot
	RecordPrevote   RecordKind = 2 // Link
	RecordPrecommit RecordKind = 3 // Link, with the QC that it rests on
	RecordFloor     RecordKind = 4 // nothing was, and nothing may be that rests on a source of this Slot or below (rule 11)
	RecordSession   RecordKind = 5 // Session: one of ours, begun or told
	RecordAccept    RecordKind = 6 // the operator's word for the floor of Slot (rule 11)
	RecordJustified RecordKind = 7 // no signature: QC, which a forgetful signer rests on
	RecordRecovery  RecordKind = 8 // nothing is signed any more in a domain before that of Recovery (rule 13)
	RecordForgot    RecordKind = 9 // something was signed that this log lacks; a RecordFloor follows once the time is set (rule 11)
)

// SignRecord is one line of the WAL (rule 11). It is RLP-encodable as it stands.
type SignRecord struct {
	Kind RecordKind
	Slot uint64     // of the block; of Link.Target for votes
	Link block.Link // zero unless a vote
	// QC is the certificate that a precommit rests on. It is on disk with the precommit: were it lost, with all who hold
	// it, the precommit would bar every other branch for ever (rule 11). nil: it was not known, or is no longer needed.
	QC      *block.Certificate `rlp:"nilList,optional"`
	Session *block.Session     `rlp:"nilList,optional"` // of RecordSession
	// Recovery is that of the domain in which it was signed, and binds; zero: the chain's first one. Of a session it says nothing.
	Recovery common.Hash `rlp:"optional"`
}

// EvidenceKind names the broken rule.
type EvidenceKind uint8

const (
	DoubleSeal EvidenceKind = 1 // two blocks of one slot by one producer: Headers
	DoubleVote EvidenceKind = 2 // prevotes on two blocks of one slot: Votes
	CrossVote  EvidenceKind = 3 // Precommit(B), and a prevote on a D that conflicts with B, source(D) < B < D: Votes, Path
)

// Evidence is proof of a producer's guilt. The signatures in it were verified.
type Evidence struct {
	Kind    EvidenceKind
	Guilty  common.Address
	Slot    uint64        // of the double block, or of the later vote's target
	Headers [2]Header     // DoubleSeal
	Votes   [2]block.Vote // DoubleVote: both; CrossVote: the precommit, then the prevote
	Key     block.BLSKey  // what both Votes were verified under; the guilty may have another by now
	Path    []common.Hash // CrossVote: headers from D down to the first at or below B's slot
}
