package rpc

import (
	"encoding/json"
	"math"
	"math/big"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/tracing"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/ethereum/go-ethereum/core/vm"
	"github.com/ethereum/go-ethereum/eth/tracers"
	_ "github.com/ethereum/go-ethereum/eth/tracers/native" // registers callTracer, prestateTracer and their relatives
	"github.com/ethereum/go-ethereum/params"
)

// What a tracer keeps of an event beside its bytes, about, in bytes of JSON.
const (
	traceFrameBytes   = 512
	traceLogBytes     = 384
	traceAccountBytes = 384
	traceSlotBytes    = 288
	traceCallBytes    = 64        // of a call that is only counted
	traceStep         = 256 << 10 // bytes of a trace that are reserved at a time
	traceDepth        = 4         // frames of nesting that make encoding a frame as costly again
)

var errTraceSize = limitExceeded("the trace is larger than %d MiB, the most of one answer; trace one transaction, use callTracer, or have less of each step (disableStack, disableStorage, limit)", maxTraceBytes>>20)

// unknownTracer answers for every tracer that go-ethereum has not registered by name. Others would be JavaScript,
// which is not offered.
func init() {
	tracers.DefaultDirectory.RegisterJSEval(func(name string, _ *tracers.Context, _ json.RawMessage, _ *params.ChainConfig) (*tracers.Tracer, error) {
		return nil, invalidParams("tracer %.40q is not offered; name callTracer, prestateTracer, flatCallTracer, 4byteTracer, muxTracer, keccak256PreimageTracer, erc7562Tracer or noopTracer (no JavaScript)", name)
	})
}

// keepsHashed are the tracers that keep what contracts hash, keepsFrames those that keep what calls take and give.
var (
	keepsHashed = map[string]bool{"keccak256PreimageTracer": true, "erc7562Tracer": true, "muxTracer": true}
	keepsFrames = map[string]bool{"callTracer": true, "flatCallTracer": true, "erc7562Tracer": true, "muxTracer": true}
)

// framesKept is how deep the frames are that the tracer keeps; -1 for none.
func framesKept(cfg *traceConfig) int {
	if !keepsFrames[*cfg.Tracer] {
		return -1
	}
	var c struct {
		OnlyTopCall bool `json:"onlyTopCall"`
	}
	if *cfg.Tracer == "callTracer" && json.Unmarshal(cfg.TracerConfig, &c) == nil && c.OnlyTopCall {
		return 0
	}
	return math.MaxInt
}

// copiesKept is how many tracers keep what is told: those in a muxTracer, else one.
func copiesKept(cfg *traceConfig) (int, error) {
	if cfg.Tracer == nil || *cfg.Tracer != "muxTracer" {
		return 1, nil
	}
	var inner map[string]json.RawMessage
	if err := json.Unmarshal(cfg.TracerConfig, &inner); err != nil {
		return 0, invalidParams("tracerConfig of muxTracer: %s", err)
	}
	if _, ok := inner["muxTracer"]; ok {
		return 0, invalidParams("a muxTracer cannot hold another one")
	}
	return max(1, len(inner)), nil
}

// traceBudget bounds what the tracers of one request keep. It counts about what their JSON will take, and of a
// transaction that is done what it takes.
type traceBudget struct {
	left   int64
	copies int    // tracers that keep what is counted
	held   *hold  // left is reserved as it is used; nil: not
	stop   func() // of the tracer and the EVM at work
	err    error  // why it stopped them
	seen   map[common.Address]bool
}

func (b *traceBudget) charge(n int) {
	if b.err != nil {
		return
	}
	b.left -= int64(n * b.copies)
	if b.check(); b.err != nil {
		b.stop()
	}
}

// check reserves what was used, in steps.
func (b *traceBudget) check() {
	used := maxTraceBytes - b.left
	switch {
	case b.left < 0:
		b.err = errTraceSize
	case b.held != nil && used > b.held.size:
		b.err = b.held.gather(int(used-b.held.size) + traceStep)
	}
}

// done counts the result of a transaction, whatever its tracer told before, which had left so many bytes at its begin.
func (b *traceBudget) done(left int64, size int) error {
	b.left = left - int64(size)
	b.check()
	return b.err
}

// wrap counts what a tracer is told.
func (b *traceBudget) wrap(t *tracers.Tracer, frames int, hashed, calls bool) *tracers.Tracer {
	b.seen = make(map[common.Address]bool)
	in, h := *t.Hooks, *t.Hooks
	// JSON is compacted once per level of nesting, so deep frames cost more than their bytes.
	frame := func(depth, bytes int) {
		if depth <= frames {
			b.charge((traceFrameBytes + 2*bytes) * (1 + depth/traceDepth))
		} else if calls {
			b.charge(traceCallBytes)
		}
	}
	if in.OnTxStart != nil {
		h.OnTxStart = func(env *tracing.VMContext, tx *types.Transaction, from common.Address) {
			c := *env
			c.StateDB = countedState{env.StateDB, b}
			in.OnTxStart(&c, tx, from)
		}
	}
	if in.OnEnter != nil {
		h.OnEnter = func(depth int, typ byte, from, to common.Address, input []byte, gas uint64, value *big.Int) {
			in.OnEnter(depth, typ, from, to, input, gas, value) // first: some tracers fail if they are stopped before their first frame
			frame(depth, len(input))
		}
	}
	if in.OnExit != nil {
		h.OnExit = func(depth int, output []byte, gasUsed uint64, err error, reverted bool) {
			frame(depth, len(output))
			in.OnExit(depth, output, gasUsed, err, reverted)
		}
	}
	if in.OnLog != nil {
		h.OnLog = func(l *types.Log) {
			b.charge(traceLogBytes + 2*len(l.Data))
			in.OnLog(l)
		}
	}
	if in.OnOpcode != nil && hashed {
		h.OnOpcode = func(pc uint64, op byte, gas, cost uint64, scope tracing.OpContext, data []byte, depth int, err error) {
			if x := vm.OpCode(op); x == vm.TLOAD || x == vm.TSTORE {
				b.charge(traceSlotBytes)
			}
			if s := scope.StackData(); vm.OpCode(op) == vm.KECCAK256 && len(s) >= 2 && err == nil {
				b.charge(128 + 2*int(min(s[len(s)-2].Uint64(), uint64(len(scope.MemoryData()))))) //nolint:gosec // bounded by the memory
			}
			in.OnOpcode(pc, op, gas, cost, scope, data, depth, err)
		}
	}
	return &tracers.Tracer{Hooks: &h, GetResult: t.GetResult, Stop: t.Stop}
}

// countedState counts what a tracer reads of the state, since it keeps it.
type countedState struct {
	tracing.StateDB
	b *traceBudget
}

func (s countedState) GetCode(a common.Address) []byte {
	code := s.StateDB.GetCode(a)
	if !s.b.seen[a] {
		s.b.seen[a] = true
		s.b.charge(traceAccountBytes + 2*len(code))
	}
	return code
}

func (s countedState) GetState(a common.Address, k common.Hash) common.Hash {
	s.b.charge(traceSlotBytes)
	return s.StateDB.GetState(a, k)
}
