package pubsub

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/ethereum/go-ethereum/common"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/pubsub/batch"
	"github.com/bornode/bornode/pubsub/kafka"
	"github.com/bornode/bornode/pubsub/ledger"
)

// Settings that only the creation of a topic takes; the contract keeps them apart.
const (
	setEncrypted = "bps.encrypted"
	setAuditor   = "bps.auditor"
)

// settings are those of a topic that can be changed, with what holds without them.
var settings = map[string]struct {
	without string
	kind    kmsg.ConfigType
	low, up int64 // of a number
	words   []string
}{
	setRetentionMS:    {"-1", kmsg.ConfigTypeLong, -1, int64(maxRetention / 1e6), nil},
	setRetentionBytes: {"-1", kmsg.ConfigTypeLong, -1, 1 << 60, nil},
	setMaxMessage:     {strconv.Itoa(defaultMaxMessage), kmsg.ConfigTypeInt, 1 << 10, batch.MaxBytes - 8<<10, nil},
	setCleanup:        {"delete", kmsg.ConfigTypeString, 0, 0, []string{"delete"}},
	setCompression:    {"producer", kmsg.ConfigTypeString, 0, 0, []string{"producer"}},
	setTimeType:       {"CreateTime", kmsg.ConfigTypeString, 0, 0, []string{"CreateTime"}},
	setTimeBefore:     {strconv.FormatInt(defaultTimeBefore, 10), kmsg.ConfigTypeLong, 0, math.MaxInt64, nil},
	setTimeAfter:      {strconv.FormatInt(defaultTimeAfter, 10), kmsg.ConfigTypeLong, 0, math.MaxInt64, nil},
	setUnclean:        {"false", kmsg.ConfigTypeBoolean, 0, 0, []string{"false", "true"}},
}

// checkSettings names the first setting that cannot be kept.
func checkSettings(all map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		s, ok := settings[key]
		if !ok {
			return fmt.Errorf("the setting %s is not served; those of a topic are %v", key, slices.Sorted(maps.Keys(settings)))
		}
		if s.words != nil {
			if !slices.Contains(s.words, all[key]) {
				return fmt.Errorf("%s is %q; it can be %v", key, all[key], s.words)
			}
			continue
		}
		if n, err := strconv.ParseInt(all[key], 10, 64); err != nil || n < s.low || n > s.up {
			return fmt.Errorf("%s is %q; it is a number from %d to %d", key, all[key], s.low, s.up)
		}
	}
	return nil
}

// ownSettings takes the settings of creation out of the others.
func ownSettings(all map[string]string) (encrypted bool, auditor common.Address, err error) {
	if v, ok := all[setEncrypted]; ok {
		if encrypted, err = strconv.ParseBool(v); err != nil {
			return false, auditor, fmt.Errorf("%s is %q; it is true or false", setEncrypted, v)
		}
	}
	if v, ok := all[setAuditor]; ok {
		if !common.IsHexAddress(v) {
			return false, auditor, fmt.Errorf("%s is %q; it is an account, 0x and 40 digits", setAuditor, v)
		}
		auditor = common.HexToAddress(v)
	}
	delete(all, setEncrypted)
	delete(all, setAuditor)
	return encrypted, auditor, nil
}

func (b *Broker) describeConfigs(x *call, r *kmsg.DescribeConfigsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.DescribeConfigsResponse)
	type resource struct {
		kind kmsg.ConfigResourceType
		name string
	}
	seen := make(map[resource]struct{})
	for i := range r.Resources {
		in := &r.Resources[i]
		if _, again := seen[resource{in.ResourceType, in.ResourceName}]; again {
			continue
		}
		seen[resource{in.ResourceType, in.ResourceName}] = struct{}{}
		out := kmsg.NewDescribeConfigsResponseResource()
		out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
		switch in.ResourceType {
		case kmsg.ConfigResourceTypeTopic:
			t, err := x.ownTopic(in.ResourceName, opDescConf)
			if err != nil {
				out.ErrorCode = code(err)
				break
			}
			x.record(t, opDescConf, -1, -1, -1)
			out.Configs = configsOf(t, in.ConfigNames)
		case kmsg.ConfigResourceTypeBroker: // nothing of a broker's own configuration is told
			if !x.may(opDescConf, onCluster, clusterName) {
				out.ErrorCode = kerr.ClusterAuthorizationFailed.Code
			}
		default:
			out.ErrorCode, out.ErrorMessage = kerr.InvalidRequest.Code, text("only topics and brokers have settings")
		}
		resp.Resources = append(resp.Resources, out)
	}
	return kafka.Now(resp)
}

// configsOf are the settings of a topic, all or those named.
func configsOf(t *ledger.Topic, names []string) (out []kmsg.DescribeConfigsResponseResourceConfig) {
	add := func(name, value string, kind kmsg.ConfigType, set, fixed bool) {
		if names != nil && !slices.Contains(names, name) {
			return
		}
		c := kmsg.NewDescribeConfigsResponseResourceConfig()
		c.Name, c.Value, c.ConfigType, c.IsDefault, c.ReadOnly = name, text(value), kind, !set, fixed
		c.Source = kmsg.ConfigSourceDefaultConfig
		if set {
			c.Source = kmsg.ConfigSourceDynamicTopicConfig
		}
		out = append(out, c)
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		s := settings[key]
		if v, ok := t.Config[key]; ok {
			add(key, v, s.kind, true, false)
		} else {
			add(key, s.without, s.kind, false, false)
		}
	}
	add(setAuditor, t.Auditor.Hex(), kmsg.ConfigTypeString, t.Auditor != (common.Address{}), true)
	add(setEncrypted, strconv.FormatBool(t.Encrypted), kmsg.ConfigTypeBoolean, t.Encrypted, true)
	return out
}

func (b *Broker) alterConfigs(x *call, r *kmsg.AlterConfigsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.AlterConfigsResponse)
	return func(ctx context.Context) kmsg.Response {
		each(r.Resources, func(_ int, in *kmsg.AlterConfigsRequestResource) {
			out := kmsg.NewAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
			o := x.configure(ctx, in.ResourceType, in.ResourceName, r.ValidateOnly, func(map[string]string) (map[string]string, error) {
				next := make(map[string]string)
				for _, c := range in.Configs {
					if c.Value != nil {
						next[c.Name] = *c.Value
					}
				}
				return next, nil
			})
			out.ErrorCode, out.ErrorMessage = o.code, o.message
			resp.Resources = append(resp.Resources, out)
		})
		return resp
	}
}

func (b *Broker) incrementalAlterConfigs(x *call, r *kmsg.IncrementalAlterConfigsRequest) kafka.Reply {
	resp := r.ResponseKind().(*kmsg.IncrementalAlterConfigsResponse)
	return func(ctx context.Context) kmsg.Response {
		each(r.Resources, func(_ int, in *kmsg.IncrementalAlterConfigsRequestResource) {
			out := kmsg.NewIncrementalAlterConfigsResponseResource()
			out.ResourceType, out.ResourceName = in.ResourceType, in.ResourceName
			o := x.configure(ctx, in.ResourceType, in.ResourceName, r.ValidateOnly, func(next map[string]string) (map[string]string, error) {
				for _, c := range in.Configs {
					switch {
					case c.Op == kmsg.IncrementalAlterConfigOpSet && c.Value != nil:
						next[c.Name] = *c.Value
					case c.Op == kmsg.IncrementalAlterConfigOpDelete:
						delete(next, c.Name)
					default:
						return nil, fmt.Errorf("%s is no list: it can be set and deleted", c.Name)
					}
				}
				return next, nil
			})
			out.ErrorCode, out.ErrorMessage = o.code, o.message
			resp.Resources = append(resp.Resources, out)
		})
		return resp
	}
}

// configure gives a topic other settings; change gets a copy of those it has.
func (x *call) configure(ctx context.Context, kind kmsg.ConfigResourceType, name string, only bool, change func(map[string]string) (map[string]string, error)) outcome {
	if kind != kmsg.ConfigResourceTypeTopic {
		return failed(kerr.InvalidRequest, "only settings of topics can be changed; those of a broker are in its bornode.toml")
	}
	if v := x.b.deps.Ledger.View(); v != nil {
		x.v = v // an earlier call of this request may have changed the topic
	}
	t, err := x.ownTopic(name, opAltConf)
	if err != nil {
		return outcome{code: code(err)}
	}
	next, err := change(maps.Clone(t.Config))
	if err == nil {
		delete(next, setEncrypted)
		delete(next, setAuditor)
		err = checkSettings(next)
	}
	if err != nil {
		return failed(kerr.InvalidConfig, err.Error())
	}
	if only || maps.Equal(next, t.Config) {
		return outcome{}
	}
	data, err := contracts.ConfigureCall(t.ID, next)
	if err != nil {
		return failed(kerr.InvalidConfig, err.Error())
	}
	o := x.relay(ctx, "configure topic", data,
		func(v *ledger.View) bool { n := v.TopicByID(t.ID); return n == nil || maps.Equal(n.Config, next) })
	x.administered(t, opAltConf, o)
	return o
}
