package main

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/ethereum/go-ethereum/eth/ethconfig"
	"github.com/ethereum/go-ethereum/ethclient/simulated"
	gethnode "github.com/ethereum/go-ethereum/node"
	"github.com/ethereum/go-ethereum/params"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
)

const simChainID = 1337 // go-ethereum's

// operator is a producer's account with its keys and its key file.
type operator struct {
	signer  *signer.Local
	account common.Address
	seal    []byte
	key     string // file
	peer    string
}

func newOperator(t *testing.T, dir string, n int) operator {
	t.Helper()
	seed := sha256.Sum256([]byte(fmt.Sprintf("borcli operator %d", n)))
	k, err := crypto.ToECDSA(seed[:])
	require.NoError(t, err)
	o := operator{seal: bytes.Clone(seed[:]), key: filepath.Join(dir, fmt.Sprint("producer", n, ".json"))}
	seed[0] = 0
	b, err := bls.SecretKeyFromBytes(seed[:])
	require.NoError(t, err)
	o.signer = signer.New(k, b)
	o.account = o.signer.Account()
	require.NoError(t, o.signer.Save(o.key))
	o.peer = peerID(byte(n))
	return o
}

// peerID is a well-formed peer id of an Ed25519 key.
func peerID(n byte) string {
	id := append([]byte{0x00, 0x24, 0x08, 0x01, 0x12, 0x20}, bytes.Repeat([]byte{n + 1}, 32)...)
	return base58(id)
}

func base58(b []byte) string {
	const digits = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
	v, out := new(big.Int).SetBytes(b), ""
	for v.Sign() > 0 {
		r := new(big.Int)
		v.DivMod(v, big.NewInt(58), r)
		out = string(digits[r.Int64()]) + out
	}
	for _, x := range b {
		if x != 0 {
			break
		}
		out = "1" + out
	}
	return out
}

// simulatedChain is a chain with the system contracts whose clock the test moves, behind an HTTP server. Four
// operators have seats, the fifth has a member node only, the sixth nothing.
type simulatedChain struct {
	t       *testing.T
	backend *simulated.Backend
	client  *gethrpc.Client
	ops     []operator
	url     string
	dir     string
	started uint64                // genesis time of the contracts
	records []*block.SealedHeader // what bor_getRecord gives, by height
	says    map[string]any        // what other methods give
}

func simulate(t *testing.T) *simulatedChain {
	t.Helper()
	s := &simulatedChain{t: t, dir: t.TempDir(), started: uint64(time.Now().Unix()) - 1000} //nolint:gosec // after 1970
	alloc := types.GenesisAlloc{}
	p := contracts.ProducersGenesis{GenesisTime: s.started, SlotMillis: 500, EpochBlocks: 1000, Seats: 5, MinProducers: 4, JailTurns: 3, SlashPercent: 50,
		EvidenceSeconds: 100_000, WithdrawSeconds: 200_000, UnjailSeconds: 3600, MinStake: ethers(100)}
	m := contracts.MembersGenesis{ProposalSeconds: 7200}
	for i := range 6 {
		o := newOperator(t, s.dir, i)
		s.ops = append(s.ops, o)
		alloc[o.account] = types.Account{Balance: ethers(10_000)}
		if i < 5 {
			m.Nodes = append(m.Nodes, contracts.MemberEntry{PeerID: o.peer, Account: o.account, Roles: contracts.RoleProducer})
		}
		if i < 4 {
			p.Producers = append(p.Producers, contracts.ProducerGenesis{Account: o.account, Key: o.signer.VoteKey(), Stake: ethers(200)})
		}
	}
	alloc[contracts.ProducersAddress] = types.Account{Code: contracts.ProducersCode(), Storage: contracts.ProducersStorage(p), Balance: p.TotalStake()}
	alloc[contracts.MembersAddress] = types.Account{Code: contracts.MembersCode(), Storage: contracts.MembersStorage(m), Balance: new(big.Int)}
	alloc[contracts.TopicsAddress] = types.Account{Code: contracts.TopicsCode(), Balance: new(big.Int)}
	socket := filepath.Join(s.dir, "geth.ipc")
	s.backend = simulated.NewBackend(alloc, func(n *gethnode.Config, c *ethconfig.Config) { n.IPCPath, c.Genesis.GasLimit = socket, 100_000_000 })
	t.Cleanup(func() { require.NoError(t, s.backend.Close()) })
	var err error
	s.client, err = gethrpc.Dial(socket)
	require.NoError(t, err)
	t.Cleanup(s.client.Close)
	s.backend.Commit()
	srv := httptest.NewServer(s)
	t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

func ethers(n int64) *big.Int { return new(big.Int).Mul(big.NewInt(n), big.NewInt(params.Ether)) }

type rpcRequest struct {
	ID     json.RawMessage   `json:"id"`
	Method string            `json:"method"`
	Params []json.RawMessage `json:"params"`
}

// ServeHTTP passes requests on; what only bornode answers is answered here.
func (s *simulatedChain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var many []rpcRequest
	if json.Unmarshal(body, &many) == nil {
		out := make([]any, len(many))
		for i := range many {
			out[i] = s.answer(r, &many[i])
		}
		_ = json.NewEncoder(w).Encode(out)
		return
	}
	var one rpcRequest
	if err := json.Unmarshal(body, &one); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = json.NewEncoder(w).Encode(s.answer(r, &one))
}

func (s *simulatedChain) answer(r *http.Request, q *rpcRequest) any {
	result, err := s.result(r, q)
	out := map[string]any{"jsonrpc": "2.0", "id": q.ID}
	var coded gethrpc.Error
	switch {
	case err == nil:
		out["result"] = result
	case errors.As(err, &coded):
		e := map[string]any{"code": coded.ErrorCode(), "message": coded.Error()}
		var data gethrpc.DataError
		if errors.As(err, &data) {
			e["data"] = data.ErrorData()
		}
		out["error"] = e
	default:
		out["error"] = map[string]any{"code": -32000, "message": err.Error()}
	}
	return out
}

func (s *simulatedChain) result(r *http.Request, q *rpcRequest) (any, error) {
	switch q.Method {
	case "bor_producers": // the schedule of genesis
		var out []map[string]any
		for i, o := range s.ops[:4] {
			out = append(out, map[string]any{"seat": fmt.Sprintf("0x%x", i), "account": o.account})
		}
		return out, nil
	case "bor_getRecord":
		return s.record(string(q.Params[0]))
	case "bor_parameters":
		return json.RawMessage(`{"number":"0x65","parameters":{"gasLimit":"0x11e1a300","maxBlockBytes":"0x400000","baseFee":"0x0","feeMarket":false,
			"seats":"0x5","minProducers":"0x4","jailTurns":"0x3","slashPercent":"0x32","minStake":"0x56bc75e2d63100000"},
			"pending":[{"kind":"parameter","name":"gas_limit","number":"0x1388","value":"0xbebc200","raw":"0x000000000bebc200","known":true}],
			"applied":[{"kind":"parameter","name":"x","number":"0x9","raw":"0x01","known":true,"invalid":"unknown"},
			{"kind":"upgrade","name":"next","number":"0x8","raw":"0x","digest":"0x0100000000000000000000000000000000000000000000000000000000000000","known":true}],
			"known":[{"name":"later","number":"0x2710","digest":"0x0200000000000000000000000000000000000000000000000000000000000000"}]}`), nil
	}
	if x, ok := s.says[q.Method]; ok {
		return x, nil
	}
	args := make([]any, len(q.Params))
	for i, p := range q.Params {
		if string(p) == `"finalized"` {
			p = json.RawMessage(`"latest"`)
		}
		args[i] = p
	}
	var out json.RawMessage
	err := s.client.CallContext(r.Context(), &out, q.Method, args...)
	if err == nil && q.Method == "eth_sendRawTransaction" {
		s.backend.Commit()
	}
	return out, err
}

func (s *simulatedChain) record(ref string) (any, error) {
	n := uint64(len(s.records)) - 1
	if ref != `"latest"` {
		var at hexutil.Uint64
		if err := json.Unmarshal([]byte(ref), &at); err != nil {
			return nil, err
		}
		n = uint64(at)
	}
	if n >= uint64(len(s.records)) {
		return nil, nil
	}
	return map[string]any{"raw": hexutil.Bytes(s.records[n].Encode())}, nil
}

// pass lets time go by. The simulated chain refuses that until its pool has noticed that the last block took everything.
func (s *simulatedChain) pass(d time.Duration) {
	s.t.Helper()
	require.Eventually(s.t, func() bool { return s.backend.AdjustTime(d) == nil }, 30*time.Second, time.Millisecond)
}

// borcli runs a command line against a node.
func borcli(t *testing.T, node, home string, args ...string) outcome {
	t.Helper()
	var out, errOut bytes.Buffer
	code := execute(t.Context(), append([]string{"--node", node}, args...), surroundings{in: strings.NewReader(""), out: &out, errOut: &errOut, home: home})
	return outcome{code, out.String(), errOut.String()}
}

// as runs a command line with an operator's key.
func (s *simulatedChain) as(n int, args ...string) outcome {
	s.t.Helper()
	return borcli(s.t, s.url, s.dir, append(args, "--key", s.ops[n].key)...)
}

func (s *simulatedChain) do(n int, args ...string) string {
	s.t.Helper()
	o := s.as(n, args...)
	require.Equal(s.t, exitOK, o.code, "%v: %s", args, o.err)
	return o.out
}

// refused runs a command that must end with this code and these words, in one sentence.
func (s *simulatedChain) refused(n, code int, words string, args ...string) {
	s.t.Helper()
	o := s.as(n, args...)
	require.Equal(s.t, code, o.code, "%v: %s%s", args, o.err, o.out)
	require.Contains(s.t, o.err, words)
	last := strings.TrimSpace(o.err)
	require.NotContains(s.t, last[strings.LastIndex(last, "borcli:"):], "\n")
}

// json runs a command with --json.
func (s *simulatedChain) json(n int, out any, args ...string) {
	s.t.Helper()
	text := s.do(n, append(args, "--json")...)
	require.NoError(s.t, json.Unmarshal([]byte(text), out), text)
}

func (s *simulatedChain) info(n int) *producerInfo {
	s.t.Helper()
	p := new(producerInfo)
	s.json(n, p, "producer", "show")
	return p
}

// possession is the JSON that bornode init --producer prints.
func (o *operator) public(chainID uint64) string {
	key, proof := o.signer.VoteKey(), o.signer.ProvePossession(chainID)
	return fmt.Sprintf(`{"peer_id":%q,"account":%q,"bls_key":"0x%x","proof":"0x%x"}`, o.peer, o.account, key[:], proof[:])
}

// withNewVoteKey is the same account with another key to vote with.
func (o *operator) withNewVoteKey(t *testing.T) *operator {
	vote, err := bls.GenerateKey(rand.Reader)
	require.NoError(t, err)
	seal, err := crypto.ToECDSA(o.seal)
	require.NoError(t, err)
	x := *o
	x.signer = signer.New(seal, vote)
	return &x
}

// sealed makes a sealed header of this chain.
func (s *simulatedChain) sealed(by operator, slot uint64, parent common.Hash, salt string) *block.SealedHeader {
	s.t.Helper()
	r := &block.Record{Version: block.RecordVersion, Slot: slot, BodyDigest: crypto.Keccak256Hash([]byte(salt))}
	empty := types.EmptyWithdrawalsHash
	h := &types.Header{
		ParentHash: parent, Coinbase: by.account, Difficulty: new(big.Int), Number: new(big.Int).SetUint64(slot), GasLimit: 300_000_000,
		Time: s.started + slot*500/1000, Extra: r.Hash().Bytes(), BaseFee: new(big.Int), WithdrawalsHash: &empty, BlobGasUsed: new(uint64),
		ExcessBlobGas: new(uint64), ParentBeaconRoot: new(common.Hash), RequestsHash: &types.EmptyRequestsHash, UncleHash: types.EmptyUncleHash,
		TxHash: types.EmptyTxsHash, ReceiptHash: types.EmptyReceiptsHash,
	}
	seal, err := by.signer.SignSeal(s.domain().SealDigest(h.Hash()))
	require.NoError(s.t, err)
	return &block.SealedHeader{Header: h, Record: r, Seal: seal}
}
