package pubsub

import (
	"errors"
	"fmt"
	"net/netip"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/proof"
	"github.com/bornode/bornode/pubsub/token"
)

var errNoTopic = errors.New("there is no such topic now, or the token's holder may not see it")

// Readers judges who asks for a topic's records by another way than Kafka, by the same rules, and keeps it on record.
type Readers struct {
	Auth     Auth
	Evidence Evidence
}

// MayRead is nil if the holder of a token may read a topic from a host; else the error says why not.
func (r Readers) MayRead(secret, host string, topic [32]byte) error {
	s, err := r.Auth.Authenticate("", "", secret)
	if err != nil {
		return err
	}
	v := r.Auth.Ledger.View()
	if err := refusal(v, s); err != nil {
		return err
	}
	t := v.TopicByID(common.Hash(topic))
	if t == nil || t.Tenant == ownTenant {
		return errNoTopic
	}
	if !scoped(s, token.Data) {
		return errNoData
	}
	who := principalOf(s)
	ok, reason := v.Authorize(who, host, opRead, onTopic, t.Name)
	seen, _ := v.Authorize(who, host, opDescribe, onTopic, t.Name)
	o := proof.Operation{Operator: who.Account, Pseudonym: who.Pseudonym, Role: proof.RoleConsumer, Kind: proof.KindRead, Partition: -1, First: -1, Last: -1,
		Start: r.Auth.Now().UnixMilli()}
	o.End = o.Start
	if !who.Pseudonym { // as with requests of Kafka clients
		o.Host, _ = netip.ParseAddr(host)
	}
	if !ok {
		o.Code, o.Reason = kerr.TopicAuthorizationFailed.Code, proof.CutReason(reason)
	}
	against := t.Tenant
	if allowed, _ := v.Allows(who, host, opRead, onTopic, t.Name); allowed {
		against = ""
	}
	r.Evidence.Operated(t.ID, countedIn(v, t, against, &o), o)
	switch {
	case ok:
		return nil
	case seen:
		return fmt.Errorf("the topic's records are not for the token's holder: %s", reason)
	}
	return errNoTopic
}

// scoped tells whether a session's token allows a scope. Without tokens nothing is held back.
func scoped(s *kafka.Session, scope uint8) bool { return s.Token == nil || s.Token.Scope&scope != 0 }
