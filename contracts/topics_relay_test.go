package contracts

import (
	"bytes"
	"crypto/ecdsa"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/stretchr/testify/require"
)

func (w *topicWorld) token(o operator) Token {
	return Token{Account: o.account, Issued: w.seconds, Expires: w.seconds + 3600, Scope: ScopeAdmin, Nonce: common.Hash{7}}
}

func signToken(t testing.TB, x Token, key *ecdsa.PrivateKey) []byte {
	digest := TokenDigest(testChainID, x)
	sig, err := crypto.Sign(digest[:], key)
	require.NoError(t, err)
	sig[64] += 27
	return sig
}

func TestRelay(t *testing.T) {
	w := newTopicWorld(t, 2)
	b := w.brokers[0]
	x := w.token(w.owner)
	sig := signToken(t, x, w.owner.key)
	digest, err := bpsTopics().UnpackTokenDigest(w.readFrom(TopicsAddress, bpsTopics().PackTokenDigest(x)))
	require.NoError(t, err)
	require.Equal(t, [32]byte(TokenDigest(testChainID, x)), digest)

	create, err := CreateTopicCall(NewTopic{Name: "acme.t", Partitions: 2, Replicas: 2})
	ret := w.must(b, RelayCall(x, sig, create), err)
	inner, err := bpsTopics().UnpackRelay(ret)
	require.NoError(t, err)
	id, err := DecodeTopicID(inner)
	require.NoError(t, err)
	require.Equal(t, TopicID("acme.t", 1), id)
	require.Equal(t, w.owner.account, w.topic(id).Owner)

	// The same token goes on working, for everything that may be relayed.
	rules := []Acl{{ResourceTopic, PatternLiteral, "acme.t", EveryUser, "*", OperationRead, PermissionAllow}}
	for _, call := range [][]byte{
		AddPartitionsCall(id, 3), bpsTopics().PackConfigure(id, []byte("{}")), bpsTopics().PackGrant("acme", rules),
		bpsTopics().PackRevoke("acme", rules), DeleteTopicCall(id),
	} {
		w.must(b, RelayCall(x, sig, call), nil)
		require.NotEmpty(t, w.events())
	}
	// Refusals come through with their words.
	w.no("no such topic", b, RelayCall(x, sig, DeleteTopicCall(id)), nil)
	low := append([]byte{}, sig...)
	low[64] -= 27
	w.must(b, RelayCall(x, low, create), nil)
}

func TestRelayRefuses(t *testing.T) {
	w := newTopicWorld(t, 2)
	w.seconds += 200_000
	b := w.brokers[0]
	id := w.create(w.owner, "acme.t", 1, 1)
	call := AddPartitionsCall(id, 2)
	good := w.token(w.owner)
	with := func(change func(*Token)) []byte {
		x := good
		change(&x)
		return RelayCall(x, signToken(t, x, w.owner.key), call)
	}
	w.no("not for administration", b, with(func(x *Token) { x.Scope = ScopeData }), nil)
	w.no("not for administration", b, with(func(x *Token) { x.Scope = 0 }), nil)
	w.no("has expired", b, with(func(x *Token) { x.Issued, x.Expires = w.seconds-10, w.seconds }), nil)
	w.no("a day at most", b, with(func(x *Token) { x.Expires = x.Issued + MaxTokenSeconds + 1 }), nil)
	w.no("a day at most", b, with(func(x *Token) { x.Issued = x.Expires + 1 }), nil)
	w.no("in the future", b, with(func(x *Token) { x.Issued, x.Expires = w.seconds+TokenSkewSeconds+1, w.seconds+TokenSkewSeconds+10 }), nil)

	// Signed by another, for another chain, for another token, or not at all.
	sig := signToken(t, good, w.owner.key)
	notSigned := "not signed by its account"
	w.no(notSigned, b, RelayCall(good, signToken(t, good, w.writer.key), call), nil)
	other := good
	other.Nonce = common.Hash{8}
	w.no(notSigned, b, RelayCall(other, sig, call), nil)
	other = good
	other.Account = w.writer.account
	w.no(notSigned, b, RelayCall(other, sig, call), nil)
	other.Account = common.Address{}
	w.no(notSigned, b, RelayCall(other, make([]byte, 65), call), nil)
	w.no(notSigned, b, RelayCall(good, sig[:64], call), nil)
	w.no(notSigned, b, RelayCall(good, nil, call), nil)
	digest := TokenDigest(testChainID+1, good)
	elsewhere, err := crypto.Sign(digest[:], w.owner.key)
	require.NoError(t, err)
	w.no(notSigned, b, RelayCall(good, elsewhere, call), nil)
	w.no(notSigned, b, RelayCall(good, highS(sig), call), nil)

	// Only a broker relays, and only what a client asks through the Kafka protocol.
	relay := RelayCall(good, sig, call)
	w.no(onlyBrokers, w.owner, relay, nil)
	w.no(onlyBrokers, w.writer, relay, nil)
	for _, data := range [][]byte{
		nil, {1, 2, 3}, SetOwnerCall(id, w.writer.account), bpsTopics().PackRegister([]byte("key")), relay,
		bpsTopics().PackSetKeys(id, 1, nil, nil), NextPseudonymsCall(id), RevokePseudonymCall(id, w.writer.account),
		bpsTopics().PackClaim(nil), bpsTopics().PackCommit(1, nil, nil, nil, nil), RetireBrokerCall(), CancelTokensCall(),
		bpsTopics().PackPardon(w.owner.account, ""), TopicCall(id),
	} {
		w.no("no administrative call that can be relayed", b, RelayCall(good, sig, data), nil)
	}
	// The account is judged, not the broker.
	strange := w.token(w.writer)
	w.no(onlyOwners, b, RelayCall(strange, signToken(t, strange, w.writer.key), call), nil)
	w.blacklist("acme", w.owner.account)
	w.no("reputation in this tenant is below 20", b, relay, nil)
	data, err := PardonCall(w.owner.account, "acme")
	_, err = w.ask(admin, data, err)
	require.NoError(t, err)
	// A relayed call for the brokers' own topic is made by no broker.
	own, err := CreateTopicCall(NewTopic{Name: OffsetsTopic, Partitions: OffsetsPartitions, Replicas: 1})
	w.no(onlyBrokers, b, RelayCall(good, sig, own), err)

	w.must(b, relay, nil)
	w.must(w.owner, CancelTokensCall(), nil)
	require.Equal(t, w.seconds+TokenSkewSeconds, eventsOf[TokensCancelled](w)[0].IssuedUntil)
	at, err := DecodeTokensCancelled(w.readFrom(TopicsAddress, TokensCancelledCall(w.owner.account)))
	require.NoError(t, err)
	require.Equal(t, w.seconds+TokenSkewSeconds, at)
	w.no("has cancelled", b, relay, nil)
	w.no("has cancelled", b, with(func(x *Token) { x.Issued = w.seconds + TokenSkewSeconds }), nil) // by a clock that is ahead, or a thief
	w.seconds++
	w.no("has cancelled", b, with(func(x *Token) { x.Issued = w.seconds }), nil)
	fresh := w.token(w.owner)
	fresh.Issued, fresh.Expires = at+1, at+3600
	w.must(b, RelayCall(fresh, signToken(t, fresh, w.owner.key), DeleteTopicCall(id)), nil)
}

// highS is the other signature of the same key and digest.
func highS(sig []byte) []byte {
	out := append([]byte{}, sig...)
	s := common.BytesToHash(sig[32:64]).Big()
	s.Sub(crypto.S256().Params().N, s)
	s.FillBytes(out[32:64])
	out[64] = 27 + 28 - out[64]
	return out
}

func TestKeys(t *testing.T) {
	w := newTopicWorld(t, 1)
	data, err := CreateTopicCall(NewTopic{Name: "acme.s", Partitions: 1, Replicas: 1, Encrypted: true})
	id, err := DecodeTopicID(w.must(w.owner, data, err))
	require.NoError(t, err)
	plain := w.create(w.owner, "acme.plain", 1, 1)
	reader, second := w.writer.account, w.brokers[0].account

	key := make([]byte, MaxSealKey)
	key[0] = 1
	data, err = SealKeyCall(key)
	w.must(w.writer, data, err)
	require.Equal(t, key, eventsOf[SealKeySet](w)[0].SealKey)
	got, err := DecodeSealKeyOf(w.readFrom(TopicsAddress, SealKeyOfCall(reader)))
	require.NoError(t, err)
	require.Equal(t, key, got)
	data, err = SealKeyCall([]byte("short"))
	w.must(w.writer, data, err)
	got, err = DecodeSealKeyOf(w.readFrom(TopicsAddress, SealKeyOfCall(reader)))
	require.NoError(t, err)
	require.Equal(t, "short", string(got))
	for _, bad := range [][]byte{nil, make([]byte, MaxSealKey+1)} {
		w.no("1 to 2048 bytes", w.writer, bpsTopics().PackRegister(bad), nil)
	}

	set := func(id common.Hash, epoch uint32, readers []common.Address, sealed ...string) []byte {
		list := make([][]byte, len(sealed))
		for i, s := range sealed {
			list[i] = []byte(s)
		}
		return bpsTopics().PackSetKeys(id, epoch, readers, list)
	}
	epoch := func() uint32 {
		e, err := DecodeKeyEpoch(w.readFrom(TopicsAddress, KeyEpochCall(id)))
		require.NoError(t, err)
		require.Equal(t, e, w.topic(id).KeyEpoch)
		return e
	}
	sealed := func(e uint32, r common.Address) string {
		b, err := DecodeSealedKey(w.readFrom(TopicsAddress, SealedKeyCall(id, e, r)))
		require.NoError(t, err)
		return string(b)
	}
	both, one := []common.Address{reader, second}, []common.Address{reader}
	w.no(onlyOwners, w.writer, set(id, 1, both, "a", "b"), nil)
	w.no("not encrypted", w.owner, set(plain, 1, both, "a", "b"), nil)
	w.no("current one + 1", w.owner, set(id, 0, both, "a", "b"), nil)
	w.no("current one + 1", w.owner, set(id, 2, both, "a", "b"), nil)
	w.no("each with a sealed key", w.owner, set(id, 1, both, "a"), nil)
	w.no("each with a sealed key", w.owner, set(id, 1, nil), nil)
	w.no("each with a sealed key", w.owner, bpsTopics().PackSetKeys(id, 1, make([]common.Address, 65), make([][]byte, 65)), nil)
	w.no("1 to 2048 bytes", w.owner, set(id, 1, both, "a", ""), nil)
	w.no("1 to 2048 bytes", w.owner, set(id, 1, both, "a", longText(2049)), nil)
	require.Zero(t, epoch())

	w.must(w.owner, set(id, 1, both, "a", "b"), nil)
	e := eventsOf[KeysSet](w)[1]
	require.Equal(t, []any{[32]byte(id), uint32(1), second, "b"}, []any{e.Topic, e.Epoch, e.Reader, string(e.SealedKey)})
	require.EqualValues(t, 1, epoch())
	w.must(w.owner, set(id, 2, one, "c"), nil) // without the second
	require.EqualValues(t, 2, epoch())
	w.no("current one + 1", w.owner, set(id, 4, one, "c"), nil)
	w.must(w.owner, set(id, 1, one, "a2"), nil) // an older epoch's key, sealed anew
	require.EqualValues(t, 2, epoch(), "it never goes back")
	require.Equal(t, []string{"a2", "b", "c", ""}, []string{sealed(1, reader), sealed(1, second), sealed(2, reader), sealed(2, second)})

	data, err = SetKeysCall(id, 3, one, [][]byte{bytes.Repeat([]byte{0xa5}, 1200)})
	w.must(w.owner, data, err)
	t.Logf("a sealed key of 1,200 bytes: %d gas", w.gas)
	w.must(w.owner, DeleteTopicCall(id), nil)
	w.no("no such topic", w.owner, data, nil)
	require.Equal(t, "c", sealed(2, reader))
}

func TestPseudonyms(t *testing.T) {
	w := newTopicWorld(t, 1)
	auditor := w.brokers[0]
	data, err := CreateTopicCall(NewTopic{Name: "acme.p", Partitions: 1, Replicas: 1, Auditor: auditor.account})
	id, err := DecodeTopicID(w.must(w.owner, data, err))
	require.NoError(t, err)
	plain := w.create(w.owner, "acme.plain", 1, 1)
	revoked := func(p common.Address) bool {
		ok, err := DecodePseudonymRevoked(w.readFrom(TopicsAddress, PseudonymRevokedCall(id, p)))
		require.NoError(t, err)
		return ok
	}
	p1, p2 := common.HexToAddress("0x1"), common.HexToAddress("0x2")
	w.no(onlyOwners, w.writer, RevokePseudonymCall(id, p1), nil)
	require.False(t, revoked(p1))
	w.must(auditor, RevokePseudonymCall(id, p1), nil)
	require.Equal(t, p1, eventsOf[PseudonymRevoked](w)[0].Pseudonym)
	w.must(w.owner, RevokePseudonymCall(id, p2), nil)
	require.True(t, revoked(p1) && revoked(p2))
	w.must(w.owner, RevokePseudonymCall(id, p2), nil)
	require.Empty(t, w.events())
	w.no("no auditor", w.owner, RevokePseudonymCall(plain, p1), nil)

	w.no("only the topic's auditor", w.owner, NextPseudonymsCall(id), nil)
	w.no("only the topic's auditor", auditor, NextPseudonymsCall(plain), nil)
	w.must(auditor, NextPseudonymsCall(id), nil)
	require.EqualValues(t, 2, eventsOf[TopicChanged](w)[0].PseudonymEpoch)
	require.EqualValues(t, 2, w.topic(id).PseudonymEpoch)
	require.True(t, revoked(p1), "for ever")
}
