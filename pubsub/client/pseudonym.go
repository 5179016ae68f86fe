package client

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/accounts"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/token"
)

// Request asks a topic's auditor for the certificate of a pseudonym. It shows whose the pseudonym is: it goes to the
// auditor alone, over a private channel, and he keeps it to know whom he admitted. Text is its form for sending.
type Request struct {
	Chain     common.Hash    `json:"chain"`
	Topic     common.Hash    `json:"topic"`
	Epoch     uint32         `json:"epoch"`
	Account   common.Address `json:"account"`
	Pseudonym common.Address `json:"pseudonym"`
	Rights    uint8          `json:"rights"` // of package token
	// The account says that the pseudonym is its own, and the pseudonym that it belongs to the account: nobody can ask
	// for another's.
	AccountSignature   hexutil.Bytes `json:"accountSignature"`
	PseudonymSignature hexutil.Bytes `json:"pseudonymSignature"`
}

const requestPrefix = "bpsr1."

func (r *Request) message() []byte {
	return crypto.Keccak256([]byte("bornode pseudonym request"), r.Chain[:], r.Topic[:], []byte{byte(r.Epoch >> 24), byte(r.Epoch >> 16), byte(r.Epoch >> 8), byte(r.Epoch)},
		r.Account[:], r.Pseudonym[:], []byte{r.Rights})
}

// Text is the form in which a request travels.
func (r *Request) Text() string {
	b, _ := json.Marshal(r) // only plain values
	return requestPrefix + base64.RawURLEncoding.EncodeToString(b)
}

// ParseRequest reads the text of a request. Errors wrap ErrRequest.
func ParseRequest(text string) (*Request, error) {
	enc, ok := strings.CutPrefix(strings.TrimSpace(text), requestPrefix)
	if !ok || len(text) > RequestBytes {
		return nil, fmt.Errorf("%w: it does not begin with %s", ErrRequest, requestPrefix)
	}
	b, err := base64.RawURLEncoding.DecodeString(enc)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	var r Request
	if err := json.Unmarshal(b, &r); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRequest, err)
	}
	return &r, nil
}

// RequestPseudonym makes the request of the client's account for a pseudonym of a topic. Make the pseudonym's key fresh for
// every topic and every epoch of its pseudonyms: a key that is used twice ties both uses together.
func (c *Client) RequestPseudonym(ctx context.Context, topic string, pseudonym Signer, rights uint8) (*Request, error) {
	if c.cfg.Account == nil {
		return nil, ErrNoAccount
	}
	info, err := c.chain.lookup(ctx, topic)
	if err != nil {
		return nil, err
	}
	if info.Auditor == (common.Address{}) {
		return nil, fmt.Errorf("%w: topic %s has no auditor: it knows no pseudonyms", ErrNotAuditor, topic)
	}
	r := &Request{Chain: c.chain.genesis, Topic: info.ID, Epoch: info.PseudonymEpoch, Account: c.Account(), Pseudonym: pseudonym.Address(), Rights: rights}
	if r.AccountSignature, err = c.cfg.Account.SignMessage(ctx, r.message()); err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	if r.PseudonymSignature, err = pseudonym.SignMessage(ctx, r.message()); err != nil {
		return nil, fmt.Errorf("signing the request: %w", err)
	}
	return r, nil
}

// Check tells whether both signatures are right. Errors wrap ErrRequest.
func (r *Request) Check() error {
	if r.Rights == 0 || r.Rights&^(token.Read|token.Write|token.Describe) != 0 {
		return fmt.Errorf("%w: rights %d", ErrRequest, r.Rights)
	}
	for _, s := range []struct {
		by  common.Address
		sig []byte
	}{{r.Account, r.AccountSignature}, {r.Pseudonym, r.PseudonymSignature}} {
		if !signed(r.message(), s.sig, s.by) {
			return fmt.Errorf("%w: %s did not sign it", ErrRequest, s.by)
		}
	}
	if r.Account == r.Pseudonym {
		return fmt.Errorf("%w: the pseudonym is the account itself", ErrRequest)
	}
	return nil
}

func signed(message, sig []byte, by common.Address) bool {
	if len(sig) != crypto.SignatureLength {
		return false
	}
	s := append([]byte(nil), sig...)
	if s[64] >= 27 {
		s[64] -= 27
	}
	pub, err := crypto.SigToPub(accounts.TextHash(message), s)
	return err == nil && crypto.PubkeyToAddress(*pub) == by
}

// Admit is the auditor's answer: it checks the request against the chain and signs the certificate, with rights of those
// that were asked for, until expires. Whether the account deserves them is the auditor's decision. Keep the request: it is
// the only record of whose the pseudonym is.
func (c *Client) Admit(ctx context.Context, topic string, r *Request, rights uint8, expires time.Time) (*token.Certificate, error) {
	if c.cfg.Account == nil {
		return nil, ErrNoAccount
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	info, err := c.chain.lookup(ctx, topic)
	if err != nil {
		return nil, err
	}
	switch {
	case r.Chain != c.chain.genesis || r.Topic != info.ID:
		return nil, fmt.Errorf("%w: it is for another topic than %s", ErrRequest, topic)
	case r.Epoch != info.PseudonymEpoch:
		return nil, fmt.Errorf("%w: it is for epoch %d of pseudonyms, the topic is in epoch %d", ErrRequest, r.Epoch, info.PseudonymEpoch)
	case info.Auditor != c.Account():
		return nil, fmt.Errorf("%w: the auditor of topic %s is %s, not %s", ErrNotAuditor, topic, info.Auditor, c.Account())
	case rights == 0 || rights&^r.Rights != 0:
		return nil, fmt.Errorf("%w: rights %d were asked for, not %d", ErrRequest, r.Rights, rights)
	case !expires.After(time.Now()):
		return nil, errors.New("the certificate would have expired already")
	}
	ret, err := c.chain.view(ctx, contracts.PseudonymRevokedCall(info.ID, r.Pseudonym))
	if err != nil {
		return nil, err
	}
	if revoked, err := contracts.DecodePseudonymRevoked(ret); err != nil || revoked {
		return nil, errors.Join(fmt.Errorf("%w: the pseudonym was revoked, or that cannot be told", ErrRequest), err)
	}
	cert := &token.Certificate{ChainID: c.chain.id, Topic: info.ID, Epoch: r.Epoch, Pseudonym: r.Pseudonym, Rights: rights, Expires: uint64(expires.Unix())} //nolint:gosec // in the future
	sig, err := c.cfg.Account.SignMessage(ctx, cert.Message())
	if err != nil {
		return nil, fmt.Errorf("signing the certificate: %w", err)
	}
	return cert, cert.SetSignature(sig, c.Account())
}

// RevokePseudonym ends a pseudonym for ever; NextPseudonyms ends all of a topic, who then need new certificates. The
// auditor and the topic's owner may do it.
func (a *Admin) RevokePseudonym(ctx context.Context, topic string, pseudonym common.Address) error {
	return a.change(ctx, "revoking a pseudonym of topic", topic, func(id common.Hash) ([]byte, error) {
		return contracts.RevokePseudonymCall(id, pseudonym), nil
	})
}

// NextPseudonyms ends all pseudonyms of a topic.
func (a *Admin) NextPseudonyms(ctx context.Context, topic string) error {
	return a.change(ctx, "ending the pseudonyms of topic", topic, func(id common.Hash) ([]byte, error) { return contracts.NextPseudonymsCall(id), nil })
}

// NewToken makes a token for clients that log in themselves, as password of SASL/PLAIN (the user name is the account) or
// bearer token of SASL/OAUTHBEARER. Scope and the longest life are package token's.
func (c *Client) NewToken(ctx context.Context, life time.Duration, scope uint8) (*token.Token, error) {
	return c.chain.newToken(ctx, time.Now(), life, scope)
}
