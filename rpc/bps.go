package rpc

import (
	"context"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/proof"
)

// bpsAPI is what the chain and the broker know of topics, as of the last irreversible block.
type bpsAPI struct {
	*service
	local bool // for the Unix socket and requests with the node's secret
}

// maxTopicsPage is the largest count of topics in one answer.
const maxTopicsPage = 64

// view reads the contract at the last irreversible block.
func (a *bpsAPI) view(ctx context.Context, h *types.Header, data []byte) ([]byte, error) {
	if a.back.Topics == nil {
		return nil, notOffered("the list of topics")
	}
	ret, err := a.back.Topics.Call(ctx, h, contracts.TopicsAddress, data)
	if err != nil {
		return nil, fmt.Errorf("read the topics at block %s: %w", h.Number, err)
	}
	return ret, nil
}

// topicOf finds a topic by its name or its id of 32 bytes.
func (a *bpsAPI) topicOf(ctx context.Context, h *types.Header, name string) (common.Hash, error) {
	if strings.HasPrefix(name, "0x") {
		b, err := hexutil.Decode(name)
		if err != nil || len(b) != common.HashLength {
			return common.Hash{}, invalidParams("topic %.70q is neither a name nor an id of 32 bytes", name)
		}
		return common.BytesToHash(b), nil
	}
	if _, err := contracts.TenantOf(name); err != nil {
		return common.Hash{}, invalidParams("topic %.70q: %v", name, err)
	}
	ret, err := a.view(ctx, h, contracts.TopicIDCall(name))
	if err != nil {
		return common.Hash{}, err
	}
	id, err := contracts.DecodeTopicID(ret)
	if err == nil && id == (common.Hash{}) {
		err = invalidParams("there is no topic %q at block %s, the last irreversible one", name, h.Number)
	}
	return id, err
}

type leaseJSON struct {
	Leader   common.Address   `json:"leader"`
	Epoch    hexutil.Uint64   `json:"epoch"`
	Replicas []common.Address `json:"replicas"`
}

type topicJSON struct {
	ID             common.Hash       `json:"id"`
	Name           string            `json:"name"`
	Owner          common.Address    `json:"owner"`
	Auditor        *common.Address   `json:"auditor,omitempty"`
	Encrypted      bool              `json:"encrypted"`
	Deleted        bool              `json:"deleted"`
	Created        hexutil.Uint64    `json:"created"` // height
	KeyEpoch       hexutil.Uint64    `json:"keyEpoch"`
	PseudonymEpoch hexutil.Uint64    `json:"pseudonymEpoch"`
	Config         map[string]string `json:"config"`
	Partitions     []leaseJSON       `json:"partitions"`
}

func topicAnswer(t *contracts.TopicInfo) (*topicJSON, error) {
	config, err := contracts.DecodeTopicConfig(t.Config)
	if err != nil {
		return nil, err
	}
	out := &topicJSON{
		ID: t.ID, Name: t.Name, Owner: t.Owner, Encrypted: t.Encrypted, Deleted: t.Deleted, Created: hexutil.Uint64(t.Created),
		KeyEpoch: hexutil.Uint64(t.KeyEpoch), PseudonymEpoch: hexutil.Uint64(t.PseudonymEpoch), Config: config, Partitions: make([]leaseJSON, len(t.Leases)),
	}
	if t.Auditor != (common.Address{}) {
		out.Auditor = &t.Auditor
	}
	for i, l := range t.Leases {
		out.Partitions[i] = leaseJSON{l.Leader, hexutil.Uint64(l.Epoch), append([]common.Address{}, l.Replicas...)}
	}
	return out, nil
}

type topicsJSON struct {
	Topics []*topicJSON   `json:"topics"`
	Total  hexutil.Uint64 `json:"total"`
}

// Topics are topics in the order of their creation, from an index on: at most 64.
func (a *bpsAPI) Topics(ctx context.Context, from, count *hexutil.Uint64) (*topicsJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	first, n := uint64(0), uint64(maxTopicsPage)
	if from != nil {
		first = uint64(*from)
	}
	if count != nil {
		n = uint64(*count)
	}
	if n == 0 || n > maxTopicsPage {
		return nil, limitExceeded("%d topics asked for, 1 to %d are given at once", n, maxTopicsPage)
	}
	ret, err := a.view(ctx, a.back.Chain.FinalHeader(), contracts.TopicPageCall(first, n))
	if err != nil {
		return nil, err
	}
	list, total, err := contracts.DecodeTopicPage(ret)
	if err != nil {
		return nil, err
	}
	out := &topicsJSON{Topics: make([]*topicJSON, len(list)), Total: hexutil.Uint64(total)}
	for i := range list {
		if out.Topics[i], err = topicAnswer(&list[i]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Topic is a topic by its name or id; null if there never was one of the id.
func (a *bpsAPI) Topic(ctx context.Context, name string) (*topicJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	h := a.back.Chain.FinalHeader()
	id, err := a.topicOf(ctx, h, name)
	if err != nil {
		return nil, err
	}
	ret, err := a.view(ctx, h, contracts.TopicCall(id))
	if err != nil {
		return nil, err
	}
	t, err := contracts.DecodeTopic(ret)
	if err != nil || t.Created == 0 {
		return nil, err
	}
	return topicAnswer(&t)
}

type brokerJSON struct {
	ID      hexutil.Uint64 `json:"id"`
	Account common.Address `json:"account"`
	Host    string         `json:"host"`
	Port    hexutil.Uint64 `json:"port"`
	PeerID  string         `json:"peerId"`
	Live    bool           `json:"live"`
}

// Brokers are all brokers, retired ones too.
func (a *bpsAPI) Brokers(ctx context.Context) ([]brokerJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	ret, err := a.view(ctx, a.back.Chain.FinalHeader(), contracts.BrokersCall())
	if err != nil {
		return nil, err
	}
	list, err := contracts.DecodeBrokers(ret)
	if err != nil {
		return nil, err
	}
	out := make([]brokerJSON, len(list))
	for i, b := range list {
		out[i] = brokerJSON{hexutil.Uint64(b.ID), b.Account, b.Host, hexutil.Uint64(b.Port), b.PeerID, b.Live} //nolint:gosec // from 1 on
	}
	return out, nil
}

type checkpointJSON struct {
	Seq    hexutil.Uint64 `json:"seq"`
	Root   common.Hash    `json:"root"`
	Leaves hexutil.Uint64 `json:"leaves"`
	Number hexutil.Uint64 `json:"number"` // of its block
}

// Checkpoint is a topic's newest checkpoint; null before the first.
func (a *bpsAPI) Checkpoint(ctx context.Context, topic string) (*checkpointJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	h := a.back.Chain.FinalHeader()
	id, err := a.topicOf(ctx, h, topic)
	if err != nil {
		return nil, err
	}
	ret, err := a.view(ctx, h, contracts.CheckpointCall(id))
	if err != nil {
		return nil, err
	}
	c, err := contracts.DecodeCheckpoint(ret)
	if err != nil || c.Seq == 0 {
		return nil, err
	}
	return &checkpointJSON{hexutil.Uint64(c.Seq), c.Root, hexutil.Uint64(c.Leaves), hexutil.Uint64(c.Height)}, nil
}

type alarmJSON struct {
	Time      hexutil.Uint64 `json:"time"` // Unix seconds
	Topic     common.Hash    `json:"topic"`
	Partition int32          `json:"partition"` // -1: the topic
	Offset    int64          `json:"offset"`    // -1: not known
	Seq       hexutil.Uint64 `json:"seq"`
	Text      string         `json:"text"`
}

// Alarms are the newest differences between checkpoints on the chain and this broker's own log, oldest first.
func (a *bpsAPI) Alarms() ([]alarmJSON, error) {
	if a.back.Broker == nil {
		return nil, notOffered("the evidence of topics: it is no broker;")
	}
	out := []alarmJSON{}
	for _, x := range a.back.Broker.Alarms() {
		out = append(out, alarmJSON{hexutil.Uint64(max(0, x.Time.Unix())), x.Topic, x.Partition, x.Offset, hexutil.Uint64(x.Seq), x.Text}) //nolint:gosec // not negative
	}
	return out, nil
}

type reportJSON struct {
	Broker    common.Address `json:"broker"` // who signed
	Topic     common.Hash    `json:"topic"`
	Partition int32          `json:"partition"`
	Text      string         `json:"text"`
	Report    hexutil.Bytes  `json:"report"` // the file (docs/wire-topics.md)
}

// Reports are the files that show which brokers lied, as far as this broker saw it. Anybody can check them.
func (a *bpsAPI) Reports() ([]reportJSON, error) {
	if a.back.Broker == nil || a.back.Trust == nil {
		return nil, notOffered("the evidence of topics: it is no broker;")
	}
	out := []reportJSON{}
	for _, file := range a.back.Broker.Reports() {
		r, err := proof.DecodeReport(file)
		if err != nil {
			continue
		}
		g, err := r.Judge(a.back.Trust, contracts.TopicsAddress)
		if err != nil {
			continue // it would accuse nobody
		}
		out = append(out, reportJSON{g.Broker, g.What.Topic, g.What.Partition, g.What.Error(), file})
	}
	return out, nil
}

// finalSource gives the headers of the chain up to its last irreversible block and a little above. To a proof a header
// that cannot be read is one that is not there; the first such error stays in failed, and then what was gathered is
// not the answer. It belongs to one request.
type finalSource struct {
	back   *Backend
	failed error
}

func (s *finalSource) SealedAt(height uint64) *block.SealedHeader {
	sealed, err := s.back.sealedAt(height)
	if err != nil && s.failed == nil {
		s.failed = err
	}
	return sealed
}

var _ proof.Source = (*finalSource)(nil)

type witnessJSON struct {
	Topic    common.Hash      `json:"topic"`
	Replica  bool             `json:"replica"` // this broker keeps the topic, and compares; else the rest is empty
	Seq      hexutil.Uint64   `json:"seq"`     // the newest checkpoint that agrees with its log; 0: none
	Root     common.Hash      `json:"root"`
	Pending  []hexutil.Uint64 `json:"pending"`  // numbers of checkpoints that are not compared yet
	Disputes []hexutil.Bytes  `json:"disputes"` // signed, of those that are not what its log gives (docs/wire-topics.md)
}

// Witness is what this broker says of a topic's checkpoints: which is the newest that its own log gives, which it has not
// compared yet, and which it disputes. Clients ask it about what another broker showed them. It may lag behind the chain.
func (a *bpsAPI) Witness(ctx context.Context, topic string) (*witnessJSON, error) {
	leave, err := a.enterCall(ctx)
	if err != nil {
		return nil, err
	}
	defer leave()
	if a.back.Broker == nil {
		return nil, notOffered("the evidence of topics: it is no broker;")
	}
	id, err := a.topicOf(ctx, a.back.Chain.FinalHeader(), topic)
	if err != nil {
		return nil, err
	}
	w, err := a.back.Broker.Witness(id)
	if err != nil {
		return nil, err
	}
	out := &witnessJSON{Topic: id, Replica: w.Replica, Seq: hexutil.Uint64(w.Seq), Root: common.Hash(w.Root), Pending: []hexutil.Uint64{}, Disputes: []hexutil.Bytes{}}
	for _, n := range w.Pending {
		out.Pending = append(out.Pending, hexutil.Uint64(n))
	}
	for _, d := range w.Disputes {
		out.Disputes = append(out.Disputes, d)
	}
	return out, nil
}
