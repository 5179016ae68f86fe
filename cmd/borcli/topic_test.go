package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

// withBrokers has three of the operators' accounts as registered brokers, and the tenant acme of the sixth.
func withBrokers(t *testing.T) *simulatedChain {
	s := simulate(t)
	for i := range 3 {
		peer := peerID(byte(100 + i))
		s.decide("member", "add", peer, "--roles", "broker", "--account", s.ops[i].account.Hex())
		s.do(i, "contract", "send", "topics", "registerBroker", "broker.example", itoa(uint64(9092+i)), hexutil.Encode([]byte(peer)))
	}
	s.decide("tenant", "set", "acme", "--owner", s.ops[5].account.Hex(), "--topics", "3", "--partitions", "20")
	return s
}

func TestTenantCommands(t *testing.T) {
	s := withBrokers(t)
	owner := s.ops[5].account.Hex()
	var x tenantInfo
	s.json(3, &x, "tenant", "show", "acme")
	require.Equal(t, [4]uint64{10 << 20, 100, 3, 20}, [4]uint64{x.BytesPerSecond, uint64(x.Connections), uint64(x.Topics), uint64(x.Partitions)})
	require.Contains(t, squeeze(s.do(3, "tenant", "show", "acme")), "owner "+owner+", reputation 100")
	list := squeeze(s.do(3, "tenant", "list"))
	require.Contains(t, list, "acme "+owner+" 0 of 3 0 of 20 10485760 100")
	require.Contains(t, list, "_bps -")

	require.Contains(t, s.decide("tenant", "set", "acme", "--bytes-per-second", "7").What, "tenant acme of "+owner+" with 7 bytes per second, 100 connections, 3 topics and 20 partitions")
	s.json(3, &x, "tenant", "show", "acme")
	require.EqualValues(t, 7, x.BytesPerSecond)
	require.Equal(t, s.ops[5].account, x.Owner)
	s.refused(0, exitRefused, "as you ask for already", "tenant", "set", "acme", "--topics", "3")
	s.refused(0, exitUsage, "a new tenant needs an owner", "tenant", "set", "two")
	s.refused(0, exitUsage, "has 1 to 63", "tenant", "set", "a.b", "--owner", owner)
	s.refused(0, exitUsage, "the brokers' own", "tenant", "set", "_bps", "--owner", owner)
	s.refused(0, exitUsage, "at least one byte per second", "tenant", "set", "acme", "--connections", "0")
	s.refused(5, exitRefused, "has no seat in the schedule", "tenant", "set", "acme", "--topics", "9")
	s.refused(0, exitNotFound, "there is no tenant", "tenant", "show", "nobody")
	require.Contains(t, s.decide("tenant", "set", "two", "--owner", "none").What, "nobody")
	require.Contains(t, squeeze(s.do(3, "tenant", "show", "two")), "owner nobody")

	require.Contains(t, squeeze(s.do(3, "tenant", "reputation", owner)), "reputation 100 of 100 in every tenant")
	require.Contains(t, squeeze(s.do(3, "tenant", "reputation", owner, "--tenant", "acme")), "reputation 100 of 100 in tenant acme")
	s.refused(3, exitNotFound, "there is no tenant", "tenant", "reputation", owner, "--tenant", "nobody")
	s.refused(0, exitNotFound, "there is no tenant", "tenant", "pardon", owner, "--tenant", "nobody")
	require.Contains(t, s.decide("tenant", "pardon", owner).What, "give "+owner+" its reputation back in all tenants")
	require.Contains(t, s.decide("tenant", "pardon", owner, "--tenant", "acme").What, "give "+owner+" its reputation back in tenant acme")
}

func TestTopicCommands(t *testing.T) {
	s := withBrokers(t)
	require.Contains(t, squeeze(s.do(3, "topic", "brokers")), "2 broker.example:9093 yes "+s.ops[1].account.Hex())
	s.refused(3, exitReverted, "borcli tenant show", "topic", "create", "acme.orders")
	s.refused(5, exitReverted, "borcli tenant list", "topic", "create", "nobody.orders")
	s.refused(5, exitUsage, "lacks its tenant", "topic", "create", "orders")
	s.refused(5, exitUsage, "key=value", "topic", "create", "acme.orders", "--set", "retention")
	s.refused(5, exitReverted, "topic brokers", "topic", "create", "acme.orders", "--replicas", "4")
	s.refused(5, exitUsage, "1 to 256 partitions", "topic", "create", "acme.orders", "--partitions", "300")

	out := s.do(5, "topic", "create", "acme.orders", "--partitions", "4", "--set", "retention.ms=5", "--set", "x=a b")
	id := contracts.TopicID("acme.orders", 1)
	require.Contains(t, out, id.Hex())
	s.refused(5, exitReverted, "topic describe shows it", "topic", "create", "acme.orders")
	text := squeeze(s.do(3, "topic", "describe", "acme.orders"))
	for _, words := range []string{"id " + id.Hex(), "owner " + s.ops[5].account.Hex(), `settings retention.ms=5 x="a b"`, "encrypted no", "PARTITION LEADER EPOCH REPLICAS", "0 1 1 1, 2, 3"} {
		require.Contains(t, text, words)
	}
	require.Contains(t, squeeze(s.do(3, "topic", "list")), "acme.orders 4 3 no "+s.ops[5].account.Hex())
	require.NotContains(t, s.do(3, "topic", "list", "other"), "acme.orders")

	s.do(5, "topic", "configure", "acme.orders", "retention.bytes=9", "--remove", "x")
	require.Contains(t, squeeze(s.do(3, "topic", "describe", "acme.orders")), "settings retention.bytes=9 retention.ms=5")
	s.refused(5, exitRefused, "has no setting", "topic", "configure", "acme.orders", "--remove", "x")
	s.refused(5, exitUsage, "nothing is to be changed", "topic", "configure", "acme.orders")
	s.do(5, "topic", "partitions", "acme.orders", "6")
	s.refused(5, exitRefused, "never falls", "topic", "partitions", "acme.orders", "6")
	s.refused(5, exitReverted, "have more allowed", "topic", "partitions", "acme.orders", "21")
	s.refused(5, exitRefused, "go there in steps", "topic", "partitions", "acme.orders", "1000")
	s.refused(3, exitReverted, "describe shows the owner", "topic", "partitions", "acme.orders", "7")
	s.do(5, "topic", "owner", "acme.orders", s.ops[3].account.Hex())
	s.do(3, "topic", "partitions", "acme.orders", "7")

	require.Contains(t, squeeze(s.do(3, "topic", "operations", "acme.orders")), "operations 0 checkpoint none yet")
	s.do(5, "topic", "delete", "acme.orders")
	s.refused(3, exitNotFound, "there is no topic", "topic", "describe", "acme.orders")
	require.Contains(t, squeeze(s.do(3, "topic", "describe", id.Hex())), "state deleted")
	s.refused(3, exitRefused, "is deleted", "topic", "delete", id.Hex())
	s.refused(3, exitUsage, "is no hash", "topic", "describe", "0x12")
	require.Contains(t, s.do(3, "topic", "operations", id.Hex()), "none yet")
}

func TestReplicaCommand(t *testing.T) {
	s := withBrokers(t)
	s.do(5, "topic", "create", "acme.t", "--partitions", "2", "--replicas", "2")
	shown := func(words string) {
		t.Helper()
		require.Contains(t, squeeze(s.do(3, "topic", "describe", "acme.t")), words)
	}
	shown("1 2 1 2, 3")
	s.refused(5, exitUsage, "nothing is to be changed", "topic", "replicas", "acme.t", "1")
	s.refused(5, exitUsage, "goes without", "topic", "replicas", "acme.t", "1", "--any", "--add", "1")
	s.refused(5, exitUsage, "is no number", "topic", "replicas", "acme.t", "x", "--add", "1")
	s.refused(5, exitRefused, "2 partitions", "topic", "replicas", "acme.t", "2", "--add", "1")
	s.refused(5, exitRefused, "there is no broker", "topic", "replicas", "acme.t", "1", "--add", "9")
	s.refused(5, exitRefused, "already: 2, 3", "topic", "replicas", "acme.t", "1", "--add", s.ops[1].account.Hex())
	s.refused(5, exitRefused, "none of those", "topic", "replicas", "acme.t", "1", "--remove", "1")
	s.refused(5, exitRefused, "one replica at least", "topic", "replicas", "acme.t", "1", "--remove", "2", "--remove", "3")
	s.refused(3, exitReverted, "describe shows the owner", "topic", "replicas", "acme.t", "1", "--add", "1")

	require.Contains(t, s.do(5, "topic", "replicas", "acme.t", "1", "--add", "1", "--remove", peerID(101)), "2 brokers 3, 1")
	shown("1 2 1 2, 3 3, 1")
	s.do(5, "topic", "replicas", "acme.t", "1", "--add", "2")
	shown("1 2 1 2, 3 3, 1, 2")
	s.do(2, "contract", "send", "topics", "retireBroker")
	s.refused(5, exitRefused, "is retired", "topic", "replicas", "acme.t", "0", "--add", "3")
	s.do(5, "topic", "replicas", "acme.t", "1", "--any")
	require.NotContains(t, s.do(3, "topic", "describe", "acme.t"), "WANTED")
}

func TestRuleCommands(t *testing.T) {
	s := withBrokers(t)
	creator := s.ops[3].account
	s.do(5, "topic", "grant", creator.Hex(), "create", "--topic", "acme.", "--prefix")
	s.do(3, "topic", "create", "acme.mine", "--replicas", "1")
	s.do(3, "topic", "grant", "everyone", "read,describe", "--topic", "acme.mine")
	s.refused(3, exitReverted, "borcli tenant show names it", "topic", "grant", "everyone", "read", "--group", "acme.readers")
	s.do(5, "topic", "grant", "Pseudonym:"+creator.Hex(), "read", "--group", "acme.readers", "--deny", "--host", "10.0.0.1")
	s.refused(5, exitRefused, "has these rules already", "topic", "grant", "everyone", "read,describe", "--topic", "acme.mine")
	text := squeeze(s.do(3, "topic", "acls", "acme"))
	for _, words := range []string{creator.Hex() + " allow create topic acme.... *", "everyone allow read topic acme.mine *", "deny read group acme.readers 10.0.0.1"} {
		require.Contains(t, text, words)
	}
	var list []ruleInfo
	s.json(3, &list, "topic", "acls", "acme")
	require.Contains(t, list, ruleInfo{contracts.UserPrincipal(creator), "allow", "create", "topic", "prefixed", "acme.", "*"})
	s.do(5, "topic", "revoke", "everyone", "read", "--topic", "acme.mine")
	s.refused(5, exitRefused, "has no such rules", "topic", "revoke", "everyone", "read", "--topic", "acme.mine")
	s.json(3, &list, "topic", "acls", "acme")
	require.Len(t, list, 3)

	for words, args := range map[string][]string{
		"--topic or --group":         {"everyone", "read"},
		"is no operation":            {"everyone", "raed", "--topic", "acme.mine"},
		"PRINCIPAL":                  {"bob", "read", "--topic", "acme.mine"},
		"the host":                   {"everyone", "read", "--topic", "acme.mine", "--host", "a b"},
		"must begin with":            {"everyone", "read", "--topic", "acme"},
		"--topic or --group, one of": {"everyone", "read", "--topic", "acme.mine", "--group", "acme.g"},
	} {
		s.refused(5, exitUsage, words, append([]string{"topic", "grant"}, args...)...)
	}
}

func TestKeyCommands(t *testing.T) {
	s := withBrokers(t)
	s.do(5, "topic", "create", "acme.secret", "--encrypted", "--replicas", "1")
	s.do(5, "topic", "create", "acme.plain", "--replicas", "1")
	reader := s.ops[4].account
	text := squeeze(s.do(4, "topic", "keys", "acme.secret"))
	require.Contains(t, text, "key epoch none yet")
	require.Contains(t, text, reader.Hex()+" no no")
	s.refused(4, exitRefused, "is not encrypted", "topic", "keys", "acme.plain")

	file := filepath.Join(s.dir, "seal.json")
	require.Contains(t, s.do(4, "topic", "register", file), reader.Hex())
	info, err := os.Stat(file)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	s.refused(4, exitRefused, "already", "topic", "register", file)
	s.refused(4, exitUsage, "--suite is for new ones", "topic", "register", file, "--suite", "x25519")
	s.refused(4, exitUsage, "unknown suite", "topic", "register", file+"2", "--suite", "rot13")
	require.NoFileExists(t, file+"2")
	require.Contains(t, squeeze(s.do(3, "topic", "keys", "acme.secret", reader.Hex(), s.ops[5].account.Hex())), reader.Hex()+" yes no "+s.ops[5].account.Hex()+" no no")
	s.do(5, "contract", "send", "topics", "setKeys", contracts.TopicID("acme.secret", 1).Hex(), "1", `["`+reader.Hex()+`"]`, `["0x01"]`)
	text = squeeze(s.do(4, "topic", "keys", "acme.secret"))
	require.Contains(t, text, "key epoch 1")
	require.Contains(t, text, reader.Hex()+" yes yes")
}
