package kafka

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"go.uber.org/zap"

	"github.com/bornode/bornode/pubsub/group"
)

// offsetsLog is the log of groups, in memory.
type offsetsLog struct {
	mu   sync.Mutex
	logs map[int32][][]byte
}

type appended int64

func (a appended) Wait(context.Context) (int64, int64, error) { return int64(a), 0, nil }

func (l *offsetsLog) Append(_ context.Context, partition int32, raw []byte) (group.Pending, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	base := len(l.logs[partition])
	l.logs[partition] = append(l.logs[partition], raw)
	return appended(base), nil
}

func (l *offsetsLog) Replay(context.Context, int32, func([]byte) error) error { return nil }
func (l *offsetsLog) Trim(context.Context, int32, int64) error                { return nil }

// withGroups gives the broker in memory a coordinator of groups.
func withGroups(t *testing.T, r *rig) {
	cfg := group.DefaultConfig()
	cfg.InitialDelay = 0
	g := group.New(cfg, group.Deps{Log: &offsetsLog{logs: map[int32][][]byte{}}, Logger: zap.NewNop()})
	t.Cleanup(func() { r.stop(); g.Close() })
	for p := range int32(group.Partitions) {
		g.Lead(p, 1)
	}
	r.h.served = func(c *Conn, req kmsg.Request) (Reply, bool) {
		switch req := req.(type) {
		case *kmsg.FindCoordinatorRequest:
			resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
			resp.NodeID, resp.Host, resp.Port = 1, r.h.host, r.h.port
			for _, k := range req.CoordinatorKeys {
				x := kmsg.NewFindCoordinatorResponseCoordinator()
				x.Key, x.NodeID, x.Host, x.Port = k, 1, r.h.host, r.h.port
				resp.Coordinators = append(resp.Coordinators, x)
			}
			return Now(resp), true
		case *kmsg.JoinGroupRequest, *kmsg.SyncGroupRequest, *kmsg.HeartbeatRequest, *kmsg.LeaveGroupRequest, *kmsg.OffsetCommitRequest,
			*kmsg.OffsetFetchRequest, *kmsg.DescribeGroupsRequest, *kmsg.ListGroupsRequest, *kmsg.DeleteGroupsRequest, *kmsg.OffsetDeleteRequest:
			who := group.Client{Principal: c.Session().Principal, Host: c.Remote(), ID: c.ClientID()}
			return Reply(g.Serve(context.Background(), who, req)), true
		}
		return nil, false
	}
}

func TestFranzGroup(t *testing.T) {
	r := start(t, &passwords{}, nil)
	withGroups(t, r)
	ctx := soon(t)
	login := kgo.SASL(plain.Auth{User: "0xabc", Pass: "right"}.AsMechanism())
	r.h.mu.Lock()
	r.h.create("acme.g")
	r.h.mu.Unlock()
	cl := client(t, r, login)
	for k := range 100 {
		require.NoError(t, cl.ProduceSync(ctx, &kgo.Record{Topic: "acme.g", Value: fmt.Append(nil, k)}).FirstErr())
	}
	got := 0
	for range 2 { // the second one goes on where the first one ended
		member, err := kgo.NewClient(kgo.SeedBrokers(r.addr), login, kgo.ConsumerGroup("acme.readers"), kgo.ConsumeTopics("acme.g"),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(), kgo.InstanceID("one"))
		require.NoError(t, err)
		for n := 0; n < 50; {
			fs := member.PollRecords(ctx, 50-n)
			require.NoError(t, fs.Err())
			fs.EachRecord(func(rec *kgo.Record) {
				require.Equal(t, fmt.Sprint(got), string(rec.Value))
				got, n = got+1, n+1
			})
		}
		require.NoError(t, member.CommitUncommittedOffsets(ctx))
		member.Close()
	}
	offsets, err := kadm.NewClient(cl).FetchOffsets(ctx, "acme.readers")
	require.NoError(t, err)
	o, ok := offsets.Lookup("acme.g", 0)
	require.True(t, ok)
	require.Equal(t, int64(100), o.At)
}

func TestKcatGroup(t *testing.T) {
	if testing.Short() {
		return // `make check` installs no clients
	}
	t.Parallel()
	r := start(t, &passwords{}, nil)
	withGroups(t, r)
	args := []string{"-b", r.addr, "-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.password=right"}
	kcat(t, "one\ntwo\nthree\n", append(args, "-P", "-t", "acme.k", "-z", "lz4")...)
	got := kcat(t, "", append(args, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "acme.readers", "acme.k")...)
	require.Equal(t, "one\ntwo\nthree\n", got)
	kcat(t, "four\n", append(args, "-P", "-t", "acme.k", "-z", "zstd")...)
	require.Equal(t, "four\n", kcat(t, "", append(args, "-q", "-e", "-X", "auto.offset.reset=earliest", "-G", "acme.readers", "acme.k")...))
}

// kafkajs, with the script that is run against real brokers too.
func TestKafkajs(t *testing.T) {
	if testing.Short() {
		return // `make check` installs no clients
	}
	t.Parallel()
	for _, mechanism := range []string{"plain", "oauthbearer"} {
		t.Run(mechanism, func(t *testing.T) {
			t.Parallel()
			f := newFiles(t)
			r := start(t, &passwords{}, f.configure)
			withGroups(t, r)
			r.h.mu.Lock()
			r.h.create("acme.js")
			r.h.mu.Unlock()
			cmd := exec.CommandContext(soon(t), "node", "topics.mjs", r.addr, f.path("ca.pem"), "0xabc", "acme.js", "acme.readers", mechanism)
			cmd.Dir, cmd.Env = "../../testnet/clients", append(os.Environ(), "TOKEN=right")
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s\nscripts/deps.sh installs what it needs", out)
			require.NotContains(t, string(out), "FAILED kafkajs")
		})
	}
}
