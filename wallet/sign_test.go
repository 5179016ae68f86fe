package wallet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/contracts"
)

func TestIncompleteTransactions(t *testing.T) {
	good := `"from":"0x0000000000000000000000000000000000000001","to":"0x0000000000000000000000000000000000000002","chainId":"0x1","nonce":"0x0","gas":"0x5208"`
	for text, want := range map[string]string{
		`{}`:                                  "lacks from, chainId, nonce, gas, gasPrice",
		`{` + good + `,"maxFeePerGas":"0x1"}`: "lacks maxPriorityFeePerGas",
		`{` + good + `,"gasPrice":"0x1","vlaue":"0x1"}`:                                                               `did you mean "value"?`,
		`{` + good + `,"gasPrice":"0x1","colour":"0x1"}`:                                                              "unknown field",
		`{` + good + `,"gasPrice":"0x1","type":"0x3"}`:                                                                "type 3 are not supported",
		`{` + good + `,"gasPrice":"0x1","type":"0x5"}`:                                                                "type 5 are not supported",
		`{` + good + `,"gasPrice":"0x1","blobVersionedHashes":[]}`:                                                    "blob transactions",
		`{` + good + `,"gasPrice":"0x1","maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x1"}`:                           "has no gasPrice",
		`{` + good + `,"type":"0x0","maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x1"}`:                               "says type 0 but has fields of type 2",
		`{` + good + `,"maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x2"}`:                                            "above maxFeePerGas",
		`{` + good + `,"gasPrice":"0x1","data":"0x01","input":"0x02"}`:                                                "data and input differ",
		`{` + good + `,"gasPrice":"0x1","chainId":"0x0"}`:                                                             "lacks chainId",
		`{` + strings.Replace(good, `"0x0000000000000000000000000000000000000002"`, "null", 1) + `,"gasPrice":"0x1"}`: "neither a recipient nor data",
		`{` + strings.Replace(good, `"nonce":"0x0"`, `"nonce":"0xffffffffffffffff"`, 1) + `,"gasPrice":"0x1"}`:        "highest",
		`{` + good + `,"maxFeePerGas":"0x1","maxPriorityFeePerGas":"0x1","authorizationList":[]}`:                     "lacks authorizationList",
		`[]`:                            "not a JSON object",
		`{` + good + `,"gasPrice":"1"}`: "0x",
	} {
		var a TxArgs
		err := json.Unmarshal([]byte(text), &a)
		if err == nil {
			_, err = a.transaction()
			requireCode(t, CodeInvalid, err)
		}
		require.ErrorContains(t, err, want, text)
	}
	a := transfer(junkFirst, shop, 0)
	big := hexutil.Bytes(make([]byte, MaxData+1))
	a.Data = &big
	_, err := a.transaction()
	requireCode(t, CodeInvalid, err, "131072 are allowed")
	a.Data = nil
	list := make(types.AccessList, MaxListEntries+1)
	a.AccessList = &list
	_, err = a.transaction()
	requireCode(t, CodeInvalid, err, "access list")
	a.AccessList, a.AuthorizationList = nil, make([]types.SetCodeAuthorization, MaxAuthorizations+1)
	_, err = a.transaction()
	requireCode(t, CodeInvalid, err, "authorizations")
}

func describe(t *testing.T, change func(a *TxArgs)) string {
	t.Helper()
	r := txRequest(t, change)
	return strings.Join(describeTx(r.tx, r.account), "\n")
}

func TestReadableTransactions(t *testing.T) {
	require.Equal(t, `transaction of type 2 on chain 1337, nonce 7, from 0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266
to 0x0000000000000000000000000000000000005409
value 1.5 ether
fee at most 0.000042 ether (21000 gas at 0.000000002 ether)`, describe(t, func(a *TxArgs) { a.Value = big256(15e17) }))

	pay, err := tokenABI().Pack("transfer", shop, big.NewInt(42))
	require.NoError(t, err)
	call := func(to common.Address, b []byte) func(a *TxArgs) {
		return func(a *TxArgs) { a.To, a.Data = &to, (*hexutil.Bytes)(&b) }
	}
	text := describe(t, call(token, pay))
	require.Contains(t, text, "calls transfer(address,uint256), if the recipient is a token\n  address to = 0x0000000000000000000000000000000000005409\n  uint256 amount = 42")
	require.Contains(t, describe(t, call(token, append(pay, 1))), "followed by other bytes")
	require.Contains(t, describe(t, call(token, pay[:30])), "but the arguments are not")
	require.Contains(t, describe(t, call(token, []byte{1, 2, 3, 4, 5})), "unknown method 0x01020304 with 1 bytes of arguments")
	require.Contains(t, describe(t, call(token, []byte{1})), "name no method")
	require.Contains(t, describe(t, func(a *TxArgs) { a.To, a.Data = nil, data("0x6001") }), "deploys a contract of 2 bytes")

	for name, m := range contracts.ProducersABI().Methods { // every method of the system contracts has a form
		args := make([]byte, 32*len(m.Inputs))
		text := describe(t, call(contracts.ProducersAddress, append(append([]byte(nil), m.ID...), args...)))
		require.Contains(t, text, "system contract Producers", name)
		require.Contains(t, text, m.Sig, name)
	}
	add, err := contracts.AddMemberCall("12D3KooWGRUfmbe4B5jRsYg9dYXbAdHXqzGo4rXzEN1dCD9nMhbJ", shop, 1)
	require.NoError(t, err)
	text = describe(t, call(contracts.MembersAddress, add))
	require.Contains(t, text, "system contract Members")
	require.Contains(t, text, `proposes: adds or changes a member
    peer = "12D3KooWGRUfmbe4B5jRsYg9dYXbAdHXqzGo4rXzEN1dCD9nMhbJ"
    account = 0x0000000000000000000000000000000000005409
    roles = 1`)
	change, err := contracts.ParameterCall(1000, "gas_limit", []byte{0, 0, 0, 0, 0, 0, 1, 0})
	require.NoError(t, err)
	require.Contains(t, describe(t, call(contracts.MembersAddress, change)), "name = \"gas_limit\"\n    value = 0x0000000000000100 = 256")
	for _, p := range []struct{ name, value, shown string }{
		{"min_stake", "0x0000001b1ae4d6e2ef500000", "0x0000001b1ae4d6e2ef500000 = 500 ether"}, {"base_fee", "0x00000000b2d05e00", "0x00000000b2d05e00 = 0.000000003 ether"},
		{"seats", "0x0000000000000005", "0x0000000000000005 = 5"}, {"long", "0x" + strings.Repeat("01", 33), "(33 bytes)"},
	} {
		change, err := contracts.ParameterCall(1000, p.name, hexutil.MustDecode(p.value))
		require.NoError(t, err)
		require.Contains(t, describe(t, call(contracts.MembersAddress, change)), p.shown)
	}
	tenant, err := contracts.SetTenantCall(contracts.Tenant{Name: "acme", Owner: shop, BytesPerSecond: 5, Connections: 6, Topics: 7, Partitions: 8})
	require.NoError(t, err)
	require.Contains(t, describe(t, call(contracts.MembersAddress, tenant)), "tenant of the topic log\n    name = \"acme\"\n    owner = 0x0000000000000000000000000000000000005409\n    bytesPerSecond = 5")
	// Texts within structures forge no lines either.
	forged := contracts.NewTopics().PackGrant("acme", []contracts.Acl{{Name: "acme.x", Principal: "User:*\nvalue 1 ether"}})
	text = describe(t, call(contracts.TopicsAddress, forged))
	require.Contains(t, text, "system contract Topics")
	require.Contains(t, text, `Name "acme.x", Principal "User:*\nvalue 1 ether"`)
	require.NotContains(t, text, "\nvalue 1 ether")
	for kind := range uint8(14) { // whatever the data is
		require.NotEmpty(t, describeProposal(kind, []byte{1, 2, 3}))
		require.NotEmpty(t, describeProposal(kind, make([]byte, 96)))
	}
	text = describe(t, func(a *TxArgs) {
		a.AuthorizationList = []types.SetCodeAuthorization{{Address: coder, Nonce: 3}}
	})
	require.Contains(t, text, "lets the code of 0x000000000000000000000000000000000000c0DE act for it on EVERY chain, nonce 3")
}

func TestReadableMessages(t *testing.T) {
	require.Equal(t, `text "pay\n1 \u202e ether"`, describeMessage(shop, []byte("pay\n1 \u202e ether"))[1])
	require.Equal(t, "bytes 0xff (1 bytes)", describeMessage(shop, []byte{0xff})[1])
	long := (&request{lines: describeMessage(shop, []byte(strings.Repeat("ä", MaxShown)))[1:]}).text()
	require.Less(t, len(long), MaxShown+200)
	require.Contains(t, long, "more characters")
}

func TestBareHashes(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	a := account(t, s)
	hash := make([]byte, 32)
	_, err := (&ethAPI{s}).Sign(t.Context(), a, hash)
	requireCode(t, CodeRefused, err, "use personal_sign, or set raw_hashes = true")
	s.Close()
	c.RawHashes = true
	s = openService(t, c)
	require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 60))
	sig, err := (&ethAPI{s}).Sign(t.Context(), a, hash)
	require.NoError(t, err)
	requireSigner(t, a, hash, sig)
	_, err = s.SignMessage(t.Context(), a, make([]byte, MaxMessage+1))
	requireCode(t, CodeInvalid, err, "65536 are allowed")
}

// operator is somebody at a terminal.
type operator struct {
	io.Reader
	keys *io.PipeWriter
	mu   sync.Mutex
	seen strings.Builder
}

func (o *operator) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen.Write(b)
}

func (o *operator) text() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.seen.String()
}

func TestAsk(t *testing.T) {
	c := testConfig(t)
	c.Confirm = ConfirmAsk
	_, err := Open(c, nil, nil)
	require.ErrorContains(t, err, "needs a terminal")
	synctest.Test(t, func(t *testing.T) {
		o := &operator{}
		o.Reader, o.keys = io.Pipe()
		defer func() { _ = o.keys.Close(); synctest.Wait() }()
		s, err := Open(c, nil, NewAsker(o, o))
		require.NoError(t, err)
		defer s.Close()
		s.n, s.p = 2, 1
		a := account(t, s)
		sign := func() error {
			_, err := s.SignMessage(t.Context(), a, []byte("hello operator"))
			return err
		}
		answered := make(chan error, 1)
		ask := func(answers ...string) error {
			go func() { answered <- sign() }()
			synctest.Wait()
			require.Contains(t, o.text(), `text "hello operator"`)
			for _, a := range answers {
				synctest.Wait() // for the question, asked again: what is typed before it is dropped
				if a == "the code" {
					a = o.code()
				}
				fmt.Fprintln(o.keys, a)
			}
			return <-answered
		}
		fmt.Fprintln(o.keys, "yes") // before the question: dropped
		require.NoError(t, ask("the code"))
		require.NoError(t, ask("", "y", "yes", "0x12", "the code"), "what is no answer is asked again")
		requireCode(t, CodeRefused, ask("yes", "no"), "the operator refused")
		start := time.Now()
		requireCode(t, CodeRefused, sign(), "did not answer within 1m0s")
		require.Equal(t, time.Minute, time.Since(start))
		fmt.Fprintln(o.keys, o.code()) // too late
		synctest.Wait()
		require.NoError(t, ask("the code"))

		ctx, cancel := context.WithCancel(t.Context())
		go func() { _, err := s.SignMessage(ctx, a, []byte("x")); answered <- err }()
		synctest.Wait()
		cancel()
		requireCode(t, CodeRefused, <-answered, "given up")

		go func() { answered <- sign() }()
		synctest.Wait()
		require.NoError(t, s.Lock("main")) // while the operator thinks
		fmt.Fprintln(o.keys, o.code())
		requireCode(t, CodeLocked, <-answered)
		before := o.text()
		requireCode(t, CodeLocked, sign())
		require.Equal(t, before, o.text(), "nobody is asked for what cannot be signed")

		require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 0))
		require.NoError(t, o.keys.Close())
		synctest.Wait()
		requireCode(t, CodeRefused, sign(), "cannot be asked")
	})
}

// code is the answer that the last question asks for.
func (o *operator) code() string {
	s := o.text()
	s = s[strings.LastIndex(s, "Type ")+len("Type "):]
	return s[:strings.Index(s, " ")]
}

// Keys that were struck for one question do not answer the next, even for the same request.
func TestAnAnswerIsForOneQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := &operator{}
		o.Reader, o.keys = io.Pipe()
		defer func() { _ = o.keys.Close(); synctest.Wait() }()
		ask := NewAsker(o, o)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool, 1)
		question := func(ctx context.Context) { yes, _ := ask(ctx, "the same text"); done <- yes }
		go question(ctx)
		synctest.Wait()
		first := o.code()
		fmt.Fprint(o.keys, first) // and before Enter the caller hangs up
		cancel()
		require.False(t, <-done)
		go question(t.Context())
		synctest.Wait()
		require.NotEqual(t, first, o.code())
		fmt.Fprintln(o.keys)
		synctest.Wait()
		require.Empty(t, done)
		require.Contains(t, o.text(), "that is no answer to this question")
		fmt.Fprintln(o.keys, o.code())
		require.True(t, <-done)
	})
}

// Who closes their connection to the socket takes the question back.
func TestWhoHangsUpIsNotAskedFor(t *testing.T) {
	c := testConfig(t)
	c.Confirm, c.AskTimeout = ConfirmAsk, 4*time.Minute
	asked, ended := make(chan struct{}, MaxAskQueue), make(chan error, MaxAskQueue)
	s, err := Open(c, nil, func(ctx context.Context, _ string) (bool, error) {
		asked <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return false, ctx.Err()
	})
	require.NoError(t, err)
	defer s.Close()
	s.n, s.p = 2, 1
	a := account(t, s)
	v, _ := serve(t, s)
	ctx := within60(t)
	wait := func(c chan struct{}) {
		select {
		case <-c:
		case <-ctx.Done():
			require.Fail(t, "nobody is asked")
		}
	}
	for range 2 {
		conn, _ := raw(t, v)
		_, err = fmt.Fprintf(conn, `{"jsonrpc":"2.0","id":1,"method":"personal_sign","params":["0x00","%s"]}`+"\n", a)
		require.NoError(t, err)
		wait(asked)
		require.NoError(t, conn.Close())
		select {
		case err := <-ended:
			require.ErrorIs(t, err, context.Canceled)
		case <-ctx.Done():
			require.Fail(t, "the question stays")
		}
	}
}

// An operator sees the whole of a long text, and in the log its hash tells it from others.
func TestLongTexts(t *testing.T) {
	form := func(end string) *request {
		return &request{lines: describeMessage(shop, []byte(strings.Repeat("a", 5000)+end))}
	}
	alice, mallory := form("all to Alice"), form("all to Mallo")
	require.NotEqual(t, alice.text(), mallory.text())
	require.Contains(t, alice.text(), "more characters, keccak256 of the whole line 0x")
	require.Contains(t, alice.whole(), "all to Alice")
	require.Less(t, len(alice.text()), MaxShown+300)

	j := &askJudge{timeout: time.Hour, turn: make(chan struct{}, 1), ask: func(_ context.Context, text string) (bool, error) {
		return strings.Contains(text, "all to Alice"), nil
	}}
	require.NoError(t, j.decide(t.Context(), alice))
	alice.lines = append(alice.lines, strings.Repeat("x", MaxReadable))
	requireCode(t, CodeRefused, j.decide(t.Context(), alice), "can be shown")

	one := describeCall(coder, append([]byte{1, 2, 3, 4}, make([]byte, 64)...))
	two := describeCall(coder, append([]byte{1, 2, 3, 4}, append(make([]byte, 63), 1)...))
	require.NotEqual(t, one, two, "arguments of an unknown method are named by their hash")
}

func TestAskQueueIsBounded(t *testing.T) {
	release := make(chan struct{})
	j := &askJudge{timeout: time.Hour, turn: make(chan struct{}, 1), ask: func(ctx context.Context, _ string) (bool, error) {
		select {
		case <-release:
			return true, nil
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}}
	errs := make(chan error, MaxAskQueue+1)
	for range MaxAskQueue + 1 {
		go func() { errs <- j.decide(t.Context(), &request{}) }()
	}
	requireCode(t, CodeRefused, <-errs, "already wait for the operator")
	close(release)
	for range MaxAskQueue {
		require.NoError(t, <-errs)
	}
	require.False(t, errors.Is(j.decide(t.Context(), &request{}), io.EOF))
}

// Whatever a transaction holds, its form has one fact a line, and no panic.
func FuzzTransaction(f *testing.F) {
	pay, err := tokenABI().Pack("transfer", shop, big.NewInt(42))
	require.NoError(f, err)
	add, err := contracts.AddMemberCall("peer", shop, 1)
	require.NoError(f, err)
	f.Add([]byte(`{"nonce":"0x0"}`), pay, byte(0))
	f.Add([]byte(`{"accessList":[{"address":"0x0000000000000000000000000000000000000001","storageKeys":[]}]}`), add, byte(1))
	f.Add([]byte(`{"authorizationList":[{"chainId":"0x0","address":"0x0000000000000000000000000000000000000001","nonce":"0x0","yParity":"0x0","r":"0x1","s":"0x1"}]}`), add, byte(2))
	f.Fuzz(func(t *testing.T, text, input []byte, to byte) {
		a := transfer(junkFirst, []common.Address{token, contracts.MembersAddress, contracts.ProducersAddress}[to%3], 1)
		if json.Unmarshal(text, a) != nil {
			return
		}
		a.Input, a.Data = (*hexutil.Bytes)(&input), nil
		tx, err := a.transaction()
		if err != nil {
			return
		}
		lines := describeTx(tx, *a.From)
		for i, line := range lines {
			require.NotContains(t, line, "\n")
			require.Less(t, len((&request{lines: lines[i : i+1]}).text()), 4*MaxShown)
		}
		_ = parsedPolicy().allows(&request{kind: kindTransaction, account: *a.From, chain: a.ChainID.ToInt(), tx: tx})
	})
}

var parsedPolicy = sync.OnceValue(func() *Policy {
	p, err := ParsePolicy([]byte(examplePolicy), false)
	if err != nil {
		panic(err)
	}
	return p
})
