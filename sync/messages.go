package blocksync

import (
	"encoding/binary"
	"fmt"

	"github.com/bornode/bornode/block"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/rlp"
)

// NetVersion is the version of the protocol as a whole; both sides of a link must have the same.
const NetVersion = 2

// Ref names a block by height, slot and hash.
type Ref struct {
	Height uint64
	Slot   uint64
	Hash   common.Hash
}

// RefOf names a sealed header's block.
func RefOf(h *block.SealedHeader) Ref { return Ref{h.Number(), h.Slot(), h.Hash()} }

// ServedModes is a set of the ways in which a node serves history.
type ServedModes uint64

const (
	ServeRange       ServedModes = 1 << iota // sync_request
	ServePull                                // one-sided reads of the served window (a provider's business)
	AnswersQuestions                         // the node understands Question and Answer: only then they may be sent to it
	AnswersSessions                          // the node answers sessions and passes them on: only then they may be sent to it
	ServeReceipts                            // receipts_request: only then it may be sent to the node
	TakesTime                                // the node understands Time.Told: only then it may be sent to it
)

// Handshake introduces a node on a link and is sent again after an irreversible sync.
type Handshake struct {
	NetVersion  uint64
	ChainID     common.Hash    // hash of block 0
	NodeID      string         // the link's authenticated peer id
	Key         common.Address // account the node signs for; zero: none, or not told
	Time        uint64         // Unix nanoseconds
	Token       common.Hash    // HandshakeToken
	Sig         []byte         // Key's signature over Token (65 bytes R,S,V); empty if Key is zero
	P2PAddress  string
	Head        Ref // preferred head
	LIB         Ref
	OS          string
	Agent       string
	Generation  uint64 // 1 for the first handshake on a link, then rising
	ReqIndex    uint64
	StepID      uint64
	First       uint64             // first height the node can serve
	Justified   block.Point        // newest justified block
	QC          *block.Certificate `rlp:"nilList"`
	FC          *block.Certificate `rlp:"nilList"`
	Votes       []block.Vote       // the node's own votes above its LIB
	SignerStart uint64             // Unix nanoseconds when the node's signer started; 0: no signer. For people
	Upgrades    common.Hash        // digest of the upgrades the node knows
	Modes       ServedModes
	// Optional, and only for a peer that set AnswersQuestions and not AnswersSessions, a node of release 0.3:
	Question uint64    `rlp:"optional"` // what do you hold of my votes? Rising on a link; 0: none is open
	Answer   ToldVotes `rlp:"optional"` // to a question of the receiver
	// Optional: encoded recoveries (package recovery) that the sender shows, in its first handshake on a link: the newest that it
	// applied, then one with the same predecessor that it knows.
	Recoveries [][]byte `rlp:"optional"`
}

// ToldVotes answers a Question: the newest votes of the asker's account that the sender holds, verified, newest first.
type ToldVotes struct {
	Question uint64 // that is answered; 0: no answer
	Votes    []block.Vote
}

// HandshakeToken binds a handshake to chain, node and time: keccak256("bornode-handshake-1", chain id, node id, time).
func HandshakeToken(chain common.Hash, node string, time uint64) common.Hash {
	var t [8]byte
	for i := range t {
		t[i] = byte(time >> (56 - 8*i))
	}
	return crypto.Keccak256Hash([]byte("bornode-handshake-1"), chain[:], []byte(node), t[:])
}

func (h *Handshake) Encode() []byte { return encodeMessage(h) }

// DecodeHandshake decodes a handshake's payload; it checks bounds, not meaning (CheckHandshake does).
func DecodeHandshake(b []byte) (*Handshake, error) {
	h := new(Handshake)
	if err := decodeMessage(TypeHandshake, b, maxHandshakeBytes, h); err != nil {
		return nil, err
	}
	for _, s := range []string{h.NodeID, h.P2PAddress, h.OS, h.Agent} {
		if err := bound(TypeHandshake, "a text", len(s), maxTextBytes); err != nil {
			return nil, err
		}
	}
	if err := bound(TypeHandshake, "votes", len(h.Votes), maxOwnVotes); err != nil {
		return nil, err
	}
	if err := bound(TypeHandshake, "votes told", len(h.Answer.Votes), maxToldVotes); err != nil {
		return nil, err
	}
	if err := bound(TypeHandshake, "recoveries", len(h.Recoveries), MaxShownRecoveries); err != nil {
		return nil, err
	}
	if n := len(h.Sig); n != 0 && n != crypto.SignatureLength {
		return nil, fmt.Errorf("%w: handshake signature of %d bytes", ErrMessage, n)
	}
	return h, nil
}

// SessionRequest is a producer's session, for which it asks what others hold of its signatures.
type SessionRequest struct {
	Round   uint64 // rises with every repetition; a node answers and passes on each once
	Session block.SignedSession
	Sig     [block.SealLength]byte // by the producer over askDigest: nobody else makes rounds
}

// askDigest is keccak256("bornode-ask-1", block 0's hash, producer, u64 number, nonce, u64 round).
func (r *SessionRequest) askDigest(chain common.Hash) common.Hash {
	b := append([]byte("bornode-ask-1"), chain[:]...)
	b = append(b, r.Session.Producer[:]...)
	b = binary.BigEndian.AppendUint64(b, r.Session.Number)
	b = append(b, r.Session.Nonce[:]...)
	return crypto.Keccak256Hash(binary.BigEndian.AppendUint64(b, r.Round))
}

// checkRound checks that the session's producer made this round.
func (r *SessionRequest) checkRound(chain common.Hash) error {
	if err := block.SignedBy(r.Session.Producer, r.askDigest(chain), r.Sig[:]); err != nil {
		return fmt.Errorf("round %d of session %d: %w", r.Round, r.Session.Number, err)
	}
	return nil
}

func (r *SessionRequest) Encode() []byte { return encodeMessage(r) }

// DecodeSessionRequest decodes a session; its signature is not verified.
func DecodeSessionRequest(b []byte) (*SessionRequest, error) {
	r := new(SessionRequest)
	return r, decodeMessage(TypeSession, b, maxControlBytes, r)
}

func encodeSessionAnswer(a *block.SessionAnswer) []byte {
	return append([]byte{WireVersion}, a.Encode()...)
}

// DecodeSessionAnswer decodes an answer to a session within its bounds; nothing in it is verified.
func DecodeSessionAnswer(b []byte) (*block.SessionAnswer, error) {
	rest, err := body(TypeSessionAnswer, b, block.MaxSessionAnswerBytes+1)
	if err != nil {
		return nil, err
	}
	a, err := block.DecodeSessionAnswer(rest)
	if err != nil {
		return nil, fmt.Errorf("%w: session_answer: %w", ErrMessage, err)
	}
	return a, nil
}

// Reason says why a node goes away.
type Reason uint8

const (
	NoReason       Reason = 0
	SelfConnect    Reason = 1
	Duplicate      Reason = 2
	WrongChain     Reason = 3
	WrongVersion   Reason = 4
	Forked         Reason = 5
	Unlinkable     Reason = 6
	BadTransaction Reason = 7
	Validation     Reason = 8
	BenignOther    Reason = 9
	FatalOther     Reason = 10
	Authentication Reason = 11
	NotAMember     Reason = 12
	Flood          Reason = 13
	Recovered      Reason = 14 // the two nodes go by different recoveries of the chain
)

var reasonNames = [...]string{"no_reason", "self", "duplicate", "wrong_chain", "wrong_version", "forked", "unlinkable",
	"bad_transaction", "validation", "benign_other", "fatal_other", "authentication", "not_a_member", "flood", "recovered"}

func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// GoAway is the last message on a link.
type GoAway struct {
	Reason   Reason
	NodeID   string
	ReqIndex uint64
}

func (g *GoAway) Encode() []byte { return encodeMessage(g) }

// DecodeGoAway decodes a go_away. An unknown reason is kept as it is.
func DecodeGoAway(b []byte) (*GoAway, error) {
	g := new(GoAway)
	if err := decodeMessage(TypeGoAway, b, maxControlBytes, g); err != nil {
		return nil, err
	}
	return g, bound(TypeGoAway, "node id", len(g.NodeID), maxTextBytes)
}

// Time is the heartbeat, as in NTP; all times are Unix nanoseconds. Org 0 asks; the answer has the asker's Xmt as Org.
// Dst is filled in by the receiver. Head, LIB and Justified tell the sender's position.
type Time struct {
	Org, Rec, Xmt, Dst uint64
	Head, LIB          Ref
	Justified          uint64 // slot of the newest justified block
	// Optional, in an answer to a peer that set TakesTime: the time that the sender goes by at the instant of Xmt, which is no clock's;
	// 0: it tells none.
	Told uint64 `rlp:"optional"`
}

func (t *Time) Encode() []byte { return encodeMessage(t) }

// DecodeTime decodes a time message.
func DecodeTime(b []byte) (*Time, error) {
	t := new(Time)
	return t, decodeMessage(TypeTime, b, maxControlBytes, t)
}

// IDMode says how a list of known or wanted ids is meant.
type IDMode uint8

const (
	ModeNone           IDMode = 0
	ModeCatchUp        IDMode = 1
	ModeLastIrrCatchUp IDMode = 2
	ModeNormal         IDMode = 3
)

var idModeNames = [...]string{"none", "catch_up", "last_irr_catch_up", "normal"}

func (m IDMode) String() string {
	if int(m) < len(idModeNames) {
		return idModeNames[m]
	}
	return fmt.Sprintf("mode(%d)", uint8(m))
}

// IDs is a list of ids with its mode; what Pending counts depends on the message.
type IDs struct {
	Mode    IDMode
	Pending uint64
	IDs     []common.Hash
}

func (l *IDs) check(t MessageType, field string) error {
	if l.Mode > ModeNormal {
		return fmt.Errorf("%w: %s: %s has mode %d", ErrMessage, t, field, l.Mode)
	}
	return bound(t, field, len(l.IDs), maxIDs)
}

// Damp is a set of the kinds of relayed traffic that a peer does not want for a while.
type Damp uint8

const (
	DampBlocks Damp = 1 << iota // announce relayed blocks by header only
	DampVotes                   // do not relay votes
)

// Notice tells what the sender has (handshake cases 0, 2 and 4), or, with SetDamp, what it wants less of.
type Notice struct {
	Blocks, Transactions IDs
	SetDamp              bool
	Damp                 Damp
}

func (n *Notice) Encode() []byte { return encodeMessage(n) }

// DecodeNotice decodes a notice.
func DecodeNotice(b []byte) (*Notice, error) {
	n := new(Notice)
	if err := decodeMessage(TypeNotice, b, maxIDListBytes, n); err != nil {
		return nil, err
	}
	if err := n.Blocks.check(TypeNotice, "known_blks"); err != nil {
		return nil, err
	}
	return n, n.Transactions.check(TypeNotice, "known_trx")
}

// Request asks for reversible blocks and pending transactions. Blocks catch_up: the branch above the newest of IDs (the
// asker's own branch, newest first, its LIB last) up to the peer's head; normal: the blocks of IDs. Transactions
// catch_up: all pending ones but those of IDs. none for both stops the answer to the request of this ReqIndex.
type Request struct {
	Transactions, Blocks IDs
	ReqIndex             uint64
	StepID               uint64
}

func (r *Request) Encode() []byte { return encodeMessage(r) }

// DecodeRequest decodes a request.
func DecodeRequest(b []byte) (*Request, error) {
	r := new(Request)
	if err := decodeMessage(TypeRequest, b, maxIDListBytes, r); err != nil {
		return nil, err
	}
	if err := r.Blocks.check(TypeRequest, "req_blks"); err != nil {
		return nil, err
	}
	return r, r.Transactions.check(TypeRequest, "req_trx")
}

// SyncRequest asks for the irreversible blocks Start to End, both included. {0,0} cancels the request of this ReqIndex.
type SyncRequest struct {
	Start, End uint64
	ReqIndex   uint64
	StepID     uint64
}

func (s *SyncRequest) Encode() []byte { return encodeMessage(s) }

// DecodeSyncRequest decodes a sync_request.
func DecodeSyncRequest(b []byte) (*SyncRequest, error) {
	s := new(SyncRequest)
	if err := decodeMessage(TypeSyncRequest, b, maxControlBytes, s); err != nil {
		return nil, err
	}
	if s.End < s.Start {
		return nil, fmt.Errorf("%w: sync_request from %d to %d", ErrMessage, s.Start, s.End)
	}
	return s, nil
}

// SignedBlock carries one block: unsolicited (ReqIndex 0) or as part of an answer. Raw is the block's encoding, not
// decoded and not copied out of the payload.
type SignedBlock struct {
	ReqIndex  uint64
	StepID    uint64
	Height    uint64
	Remaining uint64 // blocks that follow in this answer
	Raw       []byte
}

func (s *SignedBlock) Encode() []byte {
	head := make([]byte, 0, 36)
	for _, x := range []uint64{s.ReqIndex, s.StepID, s.Height, s.Remaining} {
		head = rlp.AppendUint64(head, x)
	}
	return listOf(head, [][]byte{s.Raw})
}

// DecodeSignedBlock decodes the envelope; the block itself is decoded by whoever needs more than its header.
func DecodeSignedBlock(b []byte) (*SignedBlock, error) {
	rest, err := body(TypeSignedBlock, b, maxBlockEnvelope)
	if err != nil {
		return nil, err
	}
	s := new(SignedBlock)
	content, err := listContent(TypeSignedBlock, rest)
	if err != nil {
		return nil, err
	}
	for _, f := range []*uint64{&s.ReqIndex, &s.StepID, &s.Height, &s.Remaining} {
		if *f, content, err = rlp.SplitUint64(content); err != nil {
			return nil, fmt.Errorf("%w: signed_block: %w", ErrMessage, err)
		}
	}
	s.Raw = content
	return s, oneList(TypeSignedBlock, s.Raw)
}

// Header decodes the sealed header alone.
func (s *SignedBlock) Header() (*block.SealedHeader, error) { return headerOfBlock(s.Raw) }

func headerOfBlock(raw []byte) (*block.SealedHeader, error) {
	content, err := listContent(TypeSignedBlock, raw)
	if err != nil {
		return nil, err
	}
	_, rest, err := rlp.SplitList(content)
	if err != nil {
		return nil, fmt.Errorf("%w: signed_block: %w", ErrMessage, err)
	}
	return block.DecodeSealedHeader(content[:len(content)-len(rest)])
}

func listContent(t MessageType, b []byte) ([]byte, error) {
	content, rest, err := rlp.SplitList(b)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrMessage, t, err)
	}
	if len(rest) != 0 {
		return nil, fmt.Errorf("%w: %s has %d bytes too many", ErrMessage, t, len(rest))
	}
	return content, nil
}

func oneList(t MessageType, b []byte) error { _, err := listContent(t, b); return err }

// encodePackedTransactions frames encoded transactions (RLP items as in a block's list).
func encodePackedTransactions(items [][]byte) []byte { return listOf(nil, items) }

// EncodePackedTransactions is the payload of a packed_transaction message.
func EncodePackedTransactions(txs types.Transactions) []byte { return encodeMessage(txs) }

// packedTransaction is a transaction of a message that is not decoded yet. enc is its item of the list.
type packedTransaction struct {
	hash common.Hash
	enc  []byte
}

// splitPackedTransactions finds the transactions of a message and their hashes without decoding them: most that a node
// gets it has from another peer already. A hash that is known proves its bytes to be a transaction.
func splitPackedTransactions(b []byte) ([]packedTransaction, error) {
	rest, err := body(TypePackedTransactions, b, maxTransactionsBytes)
	if err != nil {
		return nil, err
	}
	content, err := listContent(TypePackedTransactions, rest)
	if err != nil {
		return nil, err
	}
	n, err := rlp.CountValues(content)
	if err != nil {
		return nil, fmt.Errorf("%w: packed_transaction: %w", ErrMessage, err)
	}
	if err := bound(TypePackedTransactions, "the list", n, maxTransactionsCount); err != nil {
		return nil, err
	}
	packed := make([]packedTransaction, 0, n)
	for len(content) > 0 {
		kind, value, after, err := rlp.Split(content)
		if err != nil {
			return nil, fmt.Errorf("%w: packed_transaction: %w", ErrMessage, err)
		}
		enc := content[:len(content)-len(after)]
		if kind == rlp.List { // a legacy transaction; others are byte strings, and their hash is that of the string
			value = enc
		}
		packed, content = append(packed, packedTransaction{crypto.Keccak256Hash(value), enc}), after
	}
	return packed, nil
}

func (p *packedTransaction) decode() (*types.Transaction, error) {
	tx := new(types.Transaction)
	if err := rlp.DecodeBytes(p.enc, tx); err != nil {
		return nil, fmt.Errorf("%w: packed_transaction: %w", ErrMessage, err)
	}
	return tx, nil
}

// DecodePackedTransactions decodes a batch of pending transactions.
func DecodePackedTransactions(b []byte) (types.Transactions, error) {
	packed, err := splitPackedTransactions(b)
	if err != nil {
		return nil, err
	}
	txs := make(types.Transactions, len(packed))
	for i := range packed {
		if txs[i], err = packed[i].decode(); err != nil {
			return nil, err
		}
	}
	return txs, nil
}

// EncodeVotes is the payload of a vote message.
func EncodeVotes(vs []block.Vote) []byte { return encodeMessage(vs) }

// DecodeVotes decodes a vote message: one or more votes, not verified.
func DecodeVotes(b []byte) ([]block.Vote, error) {
	var vs []block.Vote
	if err := decodeMessage(TypeVotes, b, maxVotesBytes, &vs); err != nil {
		return nil, err
	}
	return vs, bound(TypeVotes, "the list", len(vs), maxVotes)
}

// BlockHeader announces a block whose body is to be pulled.
type BlockHeader struct {
	Size   uint64 // bytes of the encoded block
	Sealed *block.SealedHeader
}

func (h *BlockHeader) Encode() []byte { return encodeMessage(h) }

// DecodeBlockHeader decodes an announcement.
func DecodeBlockHeader(b []byte) (*BlockHeader, error) {
	h := new(BlockHeader)
	if err := decodeMessage(TypeBlockHeader, b, maxAnnounceBytes, h); err != nil {
		return nil, err
	}
	if h.Sealed == nil || h.Sealed.Header == nil || h.Sealed.Record == nil {
		return nil, fmt.Errorf("%w: block_header lacks its header", ErrMessage)
	}
	if h.Size > block.MaxBlockBytes {
		return nil, fmt.Errorf("%w: block_header names a block of %d bytes, %d allowed", ErrMessage, h.Size, block.MaxBlockBytes)
	}
	return h, nil
}

// ErrorCode says why a request cannot be served.
type ErrorCode uint8

const (
	CodePruned     ErrorCode = 1 // Height is the first height the node keeps
	CodeBeyond     ErrorCode = 2 // Height is the last height the node can serve in a range
	CodeGone       ErrorCode = 3 // a block of the answer is no longer on the branch; ask again
	CodeUnknown    ErrorCode = 4 // none of the ids is known
	CodeOverloaded ErrorCode = 5 // too many requests; back off
	CodeCorrupt    ErrorCode = 6 // Height cannot be read at this node for now
	CodeNothing    ErrorCode = 7 // the answer is empty: the asker has it all
	CodeTooFar     ErrorCode = 8 // the branch begins too far below; use sync_request
)

var codeNames = [...]string{"", "pruned", "beyond", "gone", "unknown", "overloaded", "corrupt", "nothing", "too_far"}

func (c ErrorCode) String() string {
	if c > 0 && int(c) < len(codeNames) {
		return codeNames[c]
	}
	return fmt.Sprintf("code(%d)", uint8(c))
}

// ErrorMessage answers a request that cannot be served, or not in full. It travels on the answer's lane, so that it
// never overtakes a block of the same answer.
type ErrorMessage struct {
	ReqIndex uint64
	Code     ErrorCode
	Height   uint64
	Detail   string
}

func (e *ErrorMessage) Encode() []byte { return encodeMessage(e) }

// DecodeError decodes an error message.
func DecodeError(b []byte) (*ErrorMessage, error) {
	e := new(ErrorMessage)
	if err := decodeMessage(TypeError, b, maxControlBytes, e); err != nil {
		return nil, err
	}
	return e, bound(TypeError, "detail", len(e.Detail), maxDetailBytes)
}
