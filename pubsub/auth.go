package pubsub

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
	"github.com/bornode/bornode/pubsub/token"
)

// Why a client is sent away; their texts are told to clients.
var (
	errNoView    = errors.New("this broker has not read the ledger yet; try again in a moment")
	errStale     = errors.New("this broker has seen no final block for too long to know who may do what; try another broker, or again when the chain goes on")
	errCancelled = errors.New("the account has cancelled this token, and all that are dated up to a minute later; make a new one then")
	errNoData    = errors.New("the token does not allow reading and writing; log in with one that has the data scope")
	errNoAdmin   = errors.New("the token does not allow administration; log in with one made by `borcli topic token --admin`")
	errPseudonym = errors.New("the pseudonym is not admitted to its topic now: its certificate is of an earlier epoch, of another auditor, or it was revoked; ask the topic's auditor for a new one")
)

// Auth admits clients by their tokens.
type Auth struct {
	ChainID uint64
	Ledger  Ledger
	Now     func() time.Time
}

// Authenticate implements kafka.Authenticator. The token is the password of PLAIN, or the bearer token of OAUTHBEARER.
func (a Auth) Authenticate(_, user, secret string) (*kafka.Session, error) {
	t, err := token.Parse(secret)
	if err != nil {
		return nil, err
	}
	if err := t.Verify(a.Now(), a.ChainID); err != nil {
		return nil, err
	}
	v := a.Ledger.View()
	if v == nil {
		return nil, errNoView
	}
	principal := "User:" + lower(t.Account)
	s := &kafka.Session{Account: t.Account, Token: t, Expires: t.ExpiresAt()}
	if c := t.Certificate; c != nil {
		if err := pseudonymAdmitted(v, c); err != nil {
			return nil, err
		}
		principal, s.Account = "Pseudonym:"+lower(t.Account), common.Address{}
	}
	if cancelled(v, t) {
		return nil, errCancelled
	}
	if user != "" && !strings.EqualFold(user, t.Account.Hex()) && !strings.EqualFold(user, principal) {
		return nil, fmt.Errorf("the user name is %q but the token is that of %s; use that as the user name, or leave it empty", clip(user), lower(t.Account))
	}
	s.Principal, s.Guest = principal, !v.Knows(principalOf(s))
	return s, nil
}

// cancelled reports whether a token's account voided it. Where that cannot be read it counts as voided.
func cancelled(v *ledger.View, t *token.Token) bool {
	until, err := v.TokensCancelled(t.Account)
	return err != nil || t.Issued <= until
}

// refusal is why a session that was let in may do nothing any more; nil: it may.
func refusal(v *ledger.View, s *kafka.Session) error {
	switch {
	case s.Token == nil:
		return nil
	case s.Token.Certificate != nil && !stillAdmitted(v, s.Token.Certificate):
		return errPseudonym
	case cancelled(v, s.Token):
		return errCancelled
	}
	return nil
}

// outOfScope is why a session's token does not allow a request; nil: it does.
func outOfScope(s *kafka.Session, req kmsg.Request) error {
	switch req.(type) {
	case *kmsg.ProduceRequest, *kmsg.FetchRequest, *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.OffsetCommitRequest, *kmsg.OffsetFetchRequest:
		if !scoped(s, token.Data) {
			return errNoData
		}
	case *kmsg.DeleteRecordsRequest: // it does not go by the contract, which would judge the token
		if !scoped(s, token.Admin) {
			return errNoAdmin
		}
	}
	return nil
}

// pseudonymAdmitted checks what only the ledger knows of a certificate.
func pseudonymAdmitted(v *ledger.View, c *token.Certificate) error {
	auditor, err := c.Auditor()
	t := v.TopicByID(c.Topic)
	if err != nil || t == nil || t.Auditor == (common.Address{}) || auditor != t.Auditor || !stillAdmitted(v, c) {
		return errPseudonym
	}
	return nil
}

// stillAdmitted checks what may change after the login: a topic's auditor never does.
func stillAdmitted(v *ledger.View, c *token.Certificate) bool {
	t := v.TopicByID(c.Topic)
	return t != nil && c.Epoch == t.PseudonymEpoch && !v.PseudonymRevoked(c.Topic, c.Pseudonym)
}

// principalOf is a session's principal as the ledger judges it.
func principalOf(s *kafka.Session) ledger.Principal {
	p := ledger.Principal{Account: s.Account}
	if s.Token != nil {
		p.Account = s.Token.Account
		if c := s.Token.Certificate; c != nil {
			p.Pseudonym, p.Topic, p.Rights = true, c.Topic, c.Rights
		}
	}
	return p
}

func lower(a common.Address) string { return strings.ToLower(a.Hex()) }

func clip(s string) string {
	if len(s) > 64 {
		s = s[:64]
	}
	return s
}
