package dpos

// Bounds on what peers can make the machine hold. See also MaxReversible of the chain's parameters.
const (
	MaxTreeBlocks       = 1 << 17 // reversible blocks; beyond it only the preferred branch grows
	maxVersions         = 3       // childless blocks kept of one slot and producer; a further one replaces the oldest
	maxVotesPerVoter    = 1024    // pooled on known blocks, per voter; the oldest leaves
	maxUnknownPerVoter  = 64      // pooled on unknown blocks, per voter; the one of the lowest slot leaves
	maxUnknownPerSlot   = 2       // of these of one kind and slot, if JudgeVotes is asked: an honest producer casts one
	maxVersionsPerVote  = 4       // signatures kept per voter and link until one is verified
	MaxVotesPerEvent    = 4096    // votes in one VotesEvent
	MaxRangeHeaders     = 1 << 16 // headers in one RangeEvent
	maxFailed           = 1024    // invalid blocks remembered
	maxSuspects         = 64      // pairs of votes being checked for guilt
	maxEvidence         = 64      // waiting in one Ready
	maxEvidenceWork     = 1 << 18 // votes compared and links followed in one Step in search of guilty pairs
	maxResend           = 64      // votes in one Ready.Resend
	maxPrecommits       = 8       // in one Ready
	maxOwnVotes         = 1 << 20 // of a kind, above the LIB; beyond it we stop signing rather than forget
	maxRootBytes        = 1 << 30 // a stored Root: our own bytes, large only after a stall of months
	maxSlotMillis       = 3600_000
	maxTurnSlots        = 1 << 20
	maxSessions         = 16 // of our own that the log holds
	resendSlots         = 8  // slots without a move of the LIB before our votes are sent again
	patienceWindowSlots = 32 // rule 8
	maxPatientLeaves    = 16 // leaves judged for one vote
)
