package wallet

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"
)

func TestSocket(t *testing.T) {
	c := testConfig(t)
	s := openService(t, c)
	path := filepath.Join(c.Dir, "borwallet.sock")

	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	require.NoError(t, err)
	dead.SetUnlinkOnClose(false)
	require.NoError(t, dead.Close())
	v, cl := serve(t, s) // in place of the dead one
	require.Equal(t, path, v.SocketPath())
	fi, err := os.Lstat(path)
	require.NoError(t, err)
	require.Equal(t, os.ModeSocket|0o600, fi.Mode())
	require.NoError(t, cl.CallContext(within60(t), nil, "wallet_version"))

	_, err = Serve(s, "second")
	require.ErrorContains(t, err, "another process answers on "+path)
	require.NoError(t, cl.CallContext(within60(t), nil, "wallet_version"), "the first is not disturbed")
	v.Close()
	require.NoFileExists(t, path)

	require.NoError(t, os.WriteFile(path, []byte("mine"), 0o600))
	_, err = Serve(s, "third")
	require.ErrorContains(t, err, "exists and is no socket")
	require.FileExists(t, path)

	s.cfg.Socket = strings.Repeat("x", 108)
	_, err = Serve(s, "fourth")
	require.ErrorContains(t, err, "set socket to a shorter path")
}

// raw is a connection without a client.
func raw(t *testing.T, v *Server) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("unix", v.SocketPath())
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
	return c, bufio.NewReader(c)
}

func TestMessagesAreBounded(t *testing.T) {
	s := openService(t, testConfig(t))
	v, cl := serve(t, s)
	c, r := raw(t, v)
	// Many messages over one connection are no long message, nor are brackets within a text.
	for range 3 {
		_, err := c.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"wallet_lock","params":["` + strings.Repeat(`[{\"`, MaxBody/8) + `"]}` + "\n"))
		require.NoError(t, err)
		line, err := r.ReadString('\n')
		require.NoError(t, err)
		require.Contains(t, line, `"code":-32012`)
	}
	go func() {
		_, _ = c.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"wallet_lock","params":["`))
		for range MaxBody/1024 + 1 {
			if _, err := c.Write(bytes.Repeat([]byte("x"), 1024)); err != nil {
				return
			}
		}
	}()
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "a request may have 524288 bytes: split it")
	require.NoError(t, cl.CallContext(within60(t), nil, "wallet_version"), "others are served")

	batch := make([]gethrpc.BatchElem, MaxBatch+1)
	for i := range batch {
		batch[i] = gethrpc.BatchElem{Method: "wallet_version", Result: new(string)}
	}
	err = cl.BatchCallContext(within60(t), batch)
	if err == nil {
		err = batch[0].Error
	}
	require.ErrorContains(t, err, "batch too large")
}

func TestConnectionsAreBounded(t *testing.T) {
	c := testConfig(t)
	c.Connections = 2
	s := openService(t, c)
	v, cl := serve(t, s)
	require.NoError(t, cl.CallContext(within60(t), nil, "wallet_version"))
	second, _ := raw(t, v)
	_, r := raw(t, v)
	line, err := r.ReadString('\n')
	require.NoError(t, err)
	require.Contains(t, line, "as many connections as it allows")
	_, err = r.ReadByte()
	require.ErrorIs(t, err, io.EOF)
	require.NoError(t, second.Close())
	require.Eventually(t, func() bool { // its place becomes free
		again, err := net.Dial("unix", v.SocketPath())
		require.NoError(t, err)
		defer again.Close()
		require.NoError(t, again.SetDeadline(time.Now().Add(time.Minute)))
		_, err = again.Write([]byte(`{"jsonrpc":"2.0","id":1,"method":"wallet_version"}` + "\n"))
		answer, rerr := bufio.NewReader(again).ReadString('\n')
		return err == nil && rerr == nil && strings.Contains(answer, `"result":"test"`)
	}, time.Minute, 10*time.Millisecond)
}

type answer struct {
	status int
	code   int
	text   string
}

// post sends a call of wallet_version.
func post(t *testing.T, url, token string, change func(r *http.Request)) answer {
	t.Helper()
	req, err := http.NewRequestWithContext(within60(t), http.MethodPost, url, strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"wallet_version"}`))
	require.NoError(t, err)
	req.Header.Set("Content-Type", "application/json")
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	if change != nil {
		change(req)
	}
	tr := &http.Transport{DisableKeepAlives: true, ExpectContinueTimeout: time.Minute}
	res, err := (&http.Client{Transport: tr}).Do(req)
	require.NoError(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	require.NoError(t, err)
	require.Empty(t, res.Header.Get("Access-Control-Allow-Origin"))
	var m struct{ Error struct{ Code int } }
	_ = json.Unmarshal(body, &m)
	return answer{res.StatusCode, m.Error.Code, string(body)}
}

func TestHTTP(t *testing.T) {
	c := testConfig(t)
	c.HTTP = "127.0.0.1:0"
	s := openService(t, c)
	v, _ := serve(t, s)
	fi, err := os.Stat(filepath.Join(c.Dir, tokenFile))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), fi.Mode().Perm())
	token, _, err := NewToken(c.Dir, time.Hour, time.Now())
	require.NoError(t, err)
	old, _, err := NewToken(c.Dir, time.Hour, time.Now().Add(-2*time.Hour))
	require.NoError(t, err)

	a := post(t, v.HTTPURL(), token, nil)
	require.Equal(t, http.StatusOK, a.status)
	require.Contains(t, a.text, `"result":"test"`)
	flipped := []byte(token)
	flipped[10] ^= 1
	for want, bad := range map[string]string{"token is missing": "", "token expired at": old, "not one of this wallet": "bw1.AAAA"} {
		a := post(t, v.HTTPURL(), bad, nil)
		require.Equal(t, http.StatusUnauthorized, a.status)
		require.Equal(t, CodeToken, a.code)
		require.Contains(t, a.text, want)
		require.Contains(t, a.text, "borwallet token")
	}
	require.Equal(t, CodeToken, post(t, v.HTTPURL(), string(flipped), nil).code)
	require.Equal(t, CodeToken, post(t, v.HTTPURL(), "", func(r *http.Request) { r.SetBasicAuth("a", token) }).code)

	require.Equal(t, http.StatusForbidden, post(t, v.HTTPURL(), token, func(r *http.Request) { r.Host = "evil.example" }).status)
	require.Equal(t, http.StatusForbidden, post(t, v.HTTPURL(), token, func(r *http.Request) { r.Header.Set("Origin", "http://localhost") }).status)
	require.Equal(t, http.StatusOK, post(t, v.HTTPURL(), token, func(r *http.Request) { r.Host = "localhost:1" }).status)
	require.Equal(t, http.StatusOK, post(t, v.HTTPURL(), token, func(r *http.Request) { r.Host = "[::1]:1" }).status)
	require.Equal(t, http.StatusMethodNotAllowed, post(t, v.HTTPURL(), token, func(r *http.Request) { r.Method = http.MethodOptions }).status)
	require.Equal(t, http.StatusRequestEntityTooLarge, post(t, v.HTTPURL(), token, func(r *http.Request) {
		r.Header.Set("Expect", "100-continue") // a body that nobody reads may reset the connection before the answer is read
		body := make([]byte, MaxBody+1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	}).status)

	require.NoError(t, RevokeTokens(c.Dir))
	require.Equal(t, CodeToken, post(t, v.HTTPURL(), token, nil).code)
	fresh, _, err := NewToken(c.Dir, time.Hour, time.Now())
	require.NoError(t, err)
	require.Equal(t, http.StatusOK, post(t, v.HTTPURL(), fresh, nil).status)
	require.Equal(t, CodeToken, post(t, v.HTTPURL(), token, nil).code)
	require.NoError(t, os.Chmod(filepath.Join(c.Dir, tokenFile), 0o644))
	require.Contains(t, post(t, v.HTTPURL(), fresh, nil).text, "run chmod 600")
}

// Who is refused holds no connection: others of the host could take all places without a token.
func TestRefusedRequestsHoldNoConnection(t *testing.T) {
	c := testConfig(t)
	c.HTTP, c.Connections = "127.0.0.1:0", 1
	s := openService(t, c)
	v, _ := serve(t, s)
	token, _, err := NewToken(c.Dir, time.Hour, time.Now())
	require.NoError(t, err)
	host := strings.TrimPrefix(v.HTTPURL(), "http://")
	for status, head := range map[string]string{
		"401": "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0", "403": "POST / HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 0",
		"405": "GET / HTTP/1.1\r\nHost: localhost",
	} {
		var line, rest []byte
		require.Eventually(t, func() bool { // the last one's place becomes free
			conn, err := net.Dial("tcp", host)
			require.NoError(t, err)
			defer conn.Close()
			require.NoError(t, conn.SetDeadline(time.Now().Add(headerTimeout/2)))
			if _, err := conn.Write([]byte(head + "\r\n\r\n")); err != nil {
				return false
			}
			r := bufio.NewReader(conn)
			if line, err = r.ReadBytes('\n'); err != nil {
				return false
			}
			rest, err = io.ReadAll(r)
			require.NoError(t, err, "the connection ends with the answer to %s", status)
			return true
		}, time.Minute, 10*time.Millisecond)
		require.Contains(t, string(line), status)
		require.Contains(t, string(rest), "Connection: close")
	}
	require.Eventually(t, func() bool {
		req, err := http.NewRequestWithContext(within60(t), http.MethodPost, v.HTTPURL(), strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"wallet_version"}`))
		require.NoError(t, err)
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set("Authorization", "Bearer "+token)
		tr := &http.Transport{}
		defer tr.CloseIdleConnections()
		res, err := (&http.Client{Transport: tr}).Do(req)
		if err != nil {
			return false
		}
		defer res.Body.Close()
		return res.StatusCode == http.StatusOK && !res.Close
	}, time.Minute, 10*time.Millisecond, "who has a token may keep the connection")
}

func TestConfigIsChecked(t *testing.T) {
	for want, change := range map[string]func(c *Config){
		"dir is empty":                       func(c *Config) { c.Dir = "" },
		"socket is empty":                    func(c *Config) { c.Socket = "" },
		"use show, ask or policy":            func(c *Config) { c.Confirm = "never" },
		"policy is empty":                    func(c *Config) { c.Confirm, c.Policy = ConfirmPolicy, "" },
		"use standard or light":              func(c *Config) { c.Scrypt = "none" },
		"ask_timeout is":                     func(c *Config) { c.AskTimeout = 0 },
		"max_unlock is":                      func(c *Config) { c.MaxUnlock = 0 },
		"connections is":                     func(c *Config) { c.Connections = 0 },
		"a loopback address with a port":     func(c *Config) { c.HTTP = "127.0.0.1" },
		"which other hosts can reach":        func(c *Config) { c.HTTP = "0.0.0.0:8555" },
		`"[::]:8555", which other hosts can`: func(c *Config) { c.HTTP = "[::]:8555" },
		`":8555", which other hosts`:         func(c *Config) { c.HTTP = ":8555" },
		`"example.com:80", which other`:      func(c *Config) { c.HTTP = "example.com:80" },
	} {
		c := DefaultConfig()
		require.NoError(t, c.Validate())
		change(&c)
		require.ErrorContains(t, c.Validate(), want)
	}
}

// Every error says in one sentence what happened, to what, and what to do.
func TestErrorTable(t *testing.T) {
	c := testConfig(t)
	c.ChainIDs = []uint64{1337}
	s := openService(t, c)
	_, cl := serve(t, s)
	a := account(t, s)
	require.NoError(t, s.Create(t.Context(), "guarded", testPassword))
	tx := map[string]any{"from": a, "to": a, "chainId": "0x539", "nonce": "0x0", "gas": "0x5208", "gasPrice": "0x1"}
	with := func(key string, v any) map[string]any {
		out := make(map[string]any)
		for k, v := range tx {
			out[k] = v
		}
		out[key] = v
		return out
	}
	for _, e := range []struct {
		method string
		args   []any
		code   int
		want   string
	}{
		{"wallet_unlock", []any{"guarded", "guess", 60}, CodeWrongPassword, "the next attempt is possible in 1s"},
		{"wallet_unlock", []any{"none", testPassword, 60}, CodeUnknown, "make it with wallet_create"},
		{"wallet_lock", []any{"none"}, CodeUnknown, "see wallet_list"},
		{"wallet_unlock", []any{"main", testPassword, 1 << 40}, CodeInvalid, "max_unlock"},
		{"wallet_create", []any{"main", testPassword}, CodeInvalid, "choose another name"},
		{"wallet_create", []any{"short", "pw"}, CodeInvalid, "choose another one"},
		{"wallet_create", []any{"A B", testPassword}, CodeInvalid, "use 1 to 32 of a-z"},
		{"wallet_importKey", []any{"main", testPassword, "0x12"}, CodeInvalid, "check the file it comes from"},
		{"wallet_importKey", []any{"main", testPassword, strings.Repeat("ff", 32)}, CodeInvalid, "no private key"},
		{"wallet_importKeystore", []any{"main", testPassword, "{}", "x"}, CodeInvalid, "geth account import"},
		{"wallet_importMnemonic", []any{"main", testPassword, strings.Replace(junkWords, "junk", "test", 1)}, CodeInvalid, "check each word"},
		{"wallet_importMnemonic", []any{"main", testPassword, junkWords, "ü"}, CodeInvalid, "wallet_importKey"},
		{"wallet_importMnemonic", []any{"main", testPassword, junkWords, "", "m/x", 1}, CodeInvalid, "write it like m/44'/60'/0'/0/i"},
		{"wallet_importMnemonic", []any{"main", testPassword, junkWords, "", "", 21}, CodeInvalid, "derives 1 to 20"},
		{"wallet_export", []any{"main", testPassword, a, "hex"}, CodeInvalid, `"keystore" or "key"`},
		{"wallet_export", []any{"main", testPassword, shop, "key"}, CodeUnknown, "has no account"},
		{"wallet_changePassword", []any{"main", testPassword, "pw"}, CodeInvalid, "8 to 1024 bytes"},
		{"wallet_signAuthorization", []any{a, map[string]any{"chainId": "0x1"}}, CodeInvalid, "fill them in"},
		{"wallet_signAuthorization", []any{a, map[string]any{"chainId": "0x0", "address": shop, "nonce": "0x0"}}, CodeRefused, "chain 0 is not among"},
		{"personal_sign", []any{hexutil.Bytes("x"), shop}, CodeUnknown, "or import its key"},
		{"eth_sign", []any{a, hexutil.Bytes(make([]byte, 32))}, CodeRefused, "use personal_sign"},
		{"eth_signTransaction", []any{with("chainId", "0x1")}, CodeRefused, "add it to chain_ids"},
		{"eth_signTransaction", []any{with("nonce", nil)}, CodeInvalid, "lacks nonce"},
		{"eth_signTransaction", []any{with("gsaPrice", "0x1")}, CodeInvalid, `did you mean "gasPrice"?`},
		{"eth_signTypedData_v4", []any{a, map[string]any{}}, CodeInvalid, "cannot be signed"},
		{"wallet_unknown", nil, -32601, "does not exist"},
		{"wallet_lock", nil, CodeInvalid, "missing value for required argument 0"},
	} {
		err := cl.CallContext(within60(t), nil, e.method, e.args...)
		requireCode(t, e.code, err, e.want)
		require.NotContains(t, err.Error(), "\n", e.method)
		require.NotContains(t, err.Error(), testPassword)
	}
	requireCode(t, CodeTooMany, cl.CallContext(within60(t), nil, "wallet_unlock", "guarded", testPassword, 60), "try again in")
	s.LockAll()
	requireCode(t, CodeLocked, cl.CallContext(within60(t), nil, "eth_signTransaction", tx), "borcli wallet unlock main")
}

// The daemon knows who connects: its own user.
func TestPeerUser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	require.NoError(t, err)
	defer l.Close()
	cl, err := net.Dial("unix", path)
	require.NoError(t, err)
	defer cl.Close()
	c, err := l.Accept()
	require.NoError(t, err)
	defer c.Close()
	uid, err := peerUser(c.(*net.UnixConn))
	require.NoError(t, err)
	require.Equal(t, os.Geteuid(), int(uid))
	require.True(t, ownUser(c.(*net.UnixConn)))
	require.NoError(t, c.Close())
	require.False(t, ownUser(c.(*net.UnixConn)), "who cannot be known is nobody")
}
