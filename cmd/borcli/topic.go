package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"

	"github.com/bornode/bornode/contracts"
)

func topicCommand() *cobra.Command {
	c := group("topic", "Topics of the topic log: what they are, who may use them, what is on record", topicAdminCommands()...)
	c.AddCommand(topicShowCommands()...)
	c.AddCommand(topicRuleCommands()...)
	c.AddCommand(topicKeyCommands()...)
	c.AddCommand(topicProofCommands()...)
	c.AddCommand(topicClientCommands()...)
	return c
}

// topicCall sends a call of Topics and prints it.
func (a *app) topicCall(ctx context.Context, what string, data []byte, next string, args ...any) error {
	s, err := a.govern(ctx, txRequest{To: &contracts.TopicsAddress, Data: data, What: what})
	if err != nil {
		return err
	}
	return a.tell(s, next, args...)
}

// topicOf finds a topic by its name or its id; deleted ones only have the id.
func (a *app) topicOf(ctx context.Context, text string) (*place, *contracts.TopicInfo, error) {
	at, err := a.newest(ctx)
	if err != nil {
		return nil, nil, err
	}
	id, err := a.topicID(ctx, at, text)
	if err != nil {
		return nil, nil, err
	}
	t := new(contracts.TopicInfo)
	if err := a.readAll(ctx, at, ofTopics(t, contracts.TopicCall(id), contracts.DecodeTopic)); err != nil {
		return nil, nil, err
	}
	if t.Created == 0 {
		return nil, nil, fail(exitNotFound, "there is no topic %.260q; borcli topic list shows them", text)
	}
	return at, t, nil
}

func (a *app) topicID(ctx context.Context, at *place, text string) (id common.Hash, err error) {
	if strings.HasPrefix(text, "0x") && !strings.Contains(text, ".") {
		if id, err = parseHash(text); err != nil {
			return id, fail(exitUsage, "TOPIC: %v, or the topic's name", err)
		}
		return id, nil
	}
	if _, err := contracts.TenantOf(text); err != nil {
		return id, fail(exitUsage, "TOPIC: %v", err)
	}
	return id, a.readAll(ctx, at, ofTopics(&id, contracts.TopicIDCall(text), contracts.DecodeTopicID))
}

// liveTopic is topicOf, for what can only be done to a topic that is not deleted.
func (a *app) liveTopic(ctx context.Context, text string) (*place, *contracts.TopicInfo, error) {
	at, t, err := a.topicOf(ctx, text)
	if err == nil && t.Deleted {
		err = fail(exitRefused, "topic %s (%s) is deleted", t.Name, t.ID)
	}
	return at, t, err
}

// parseConfig reads key=value arguments into a configuration.
func parseConfig(config map[string]string, list []string) error {
	for _, x := range list {
		key, value, ok := strings.Cut(x, "=")
		if !ok || key == "" {
			return fail(exitUsage, "%.200q is no setting: write it as key=value, such as retention.ms=86400000", x)
		}
		config[key] = value
	}
	return nil
}

func yesNo(v bool) string { return map[bool]string{true: "yes", false: "no"}[v] }

// epochText is an epoch for people: epochs begin with 1.
func epochText(n uint32) string {
	if n == 0 {
		return "none yet"
	}
	return fmt.Sprint(n)
}
