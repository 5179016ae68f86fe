package wallet

import (
	"context"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/holiman/uint256"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/bornode/bornode/internal/leaks"
)

const (
	testPassword = "correct horse battery"
	junkWords    = "test test test test test test test test test test test junk"
)

var junkFirst = common.HexToAddress("0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266")

func TestMain(m *testing.M) { leaks.Main(m) }

// testConfig works on a short path, so that its socket fits.
func testConfig(t *testing.T) Config {
	t.Helper()
	dir, err := os.MkdirTemp("", "bw")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	c := DefaultConfig()
	c.Dir, c.Scrypt = filepath.Join(dir, "w"), "light"
	return c
}

func testLog(t *testing.T, w zapcore.WriteSyncer) *zap.Logger {
	t.Helper()
	return zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), w, zap.DebugLevel))
}

func openService(t *testing.T, c Config) *Service {
	t.Helper()
	s, err := Open(c, nil, nil)
	require.NoError(t, err)
	s.n, s.p = 2, 1 // tests hash a lot
	t.Cleanup(s.Close)
	return s
}

// serve answers on the socket and gives a client of it.
func serve(t *testing.T, s *Service) (*Server, *gethrpc.Client) {
	t.Helper()
	v, err := Serve(s, "test")
	require.NoError(t, err)
	t.Cleanup(v.Close)
	return v, dial(t, v)
}

func dial(t *testing.T, v *Server) *gethrpc.Client {
	t.Helper()
	cl, err := gethrpc.DialContext(t.Context(), v.SocketPath())
	require.NoError(t, err)
	t.Cleanup(cl.Close)
	return cl
}

// account makes wallet "main" with one new account and unlocks it.
func account(t *testing.T, s *Service) common.Address {
	t.Helper()
	ctx := t.Context()
	require.NoError(t, s.Create(ctx, "main", testPassword))
	a, err := s.NewAccount(ctx, "main", testPassword)
	require.NoError(t, err)
	require.NoError(t, s.Unlock(ctx, "main", testPassword, 600))
	return a
}

func requireCode(t *testing.T, code int, err error, parts ...string) {
	t.Helper()
	require.Error(t, err)
	e, ok := err.(interface{ ErrorCode() int })
	require.True(t, ok, "%T: %v", err, err)
	require.Equal(t, code, e.ErrorCode(), "%v", err)
	for _, p := range parts {
		require.ErrorContains(t, err, p)
	}
}

func big256(n int64) *hexutil.Big { return (*hexutil.Big)(big.NewInt(n)) }

func num(n uint64) *hexutil.Uint64 { return (*hexutil.Uint64)(&n) }

// transfer is a transaction of type 2 on chain 1337.
func transfer(from, to common.Address, wei int64) *TxArgs {
	return &TxArgs{From: &from, To: &to, ChainID: big256(1337), Nonce: num(7), Gas: num(21000), MaxFeePerGas: big256(2e9),
		MaxPriorityFeePerGas: big256(1e9), Value: big256(wei)}
}

func within60(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func u256(n uint64) *uint256.Int { return uint256.NewInt(n) }
