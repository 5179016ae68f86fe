package wallet

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"github.com/ethereum/go-ethereum/crypto"
	"go.uber.org/zap"
)

// judge says whether something may be signed: nil, or an error of CodeRefused that names the reason.
type judge interface {
	decide(ctx context.Context, r *request) error
}

// Asker shows a readable form to the operator and waits for the answer. It ends with the context.
type Asker func(ctx context.Context, text string) (yes bool, err error)

func newJudge(c *Config, log *zap.Logger, asker Asker) (judge, error) {
	switch c.Confirm {
	case ConfirmAsk:
		if asker == nil {
			return nil, fmt.Errorf("confirm = ask needs a terminal to ask on: start borwallet on one, or use show or policy")
		}
		return &askJudge{ask: asker, timeout: c.AskTimeout, turn: make(chan struct{}, 1)}, nil
	case ConfirmPolicy:
		p, err := LoadPolicy(c.Path(c.Policy))
		if err != nil {
			return nil, err
		}
		log.Info("signing by policy", zap.String("file", c.Path(c.Policy)))
		return &policyJudge{policy: p}, nil
	}
	return showJudge{}, nil
}

// showJudge signs everything; the log shows it.
type showJudge struct{}

func (showJudge) decide(context.Context, *request) error { return nil }

// askJudge asks for one signature at a time.
type askJudge struct {
	ask     Asker
	timeout time.Duration
	turn    chan struct{}
	waiting atomic.Int32
}

func (j *askJudge) decide(ctx context.Context, r *request) error {
	defer j.waiting.Add(-1)
	if j.waiting.Add(1) > MaxAskQueue {
		return refused("%d requests already wait for the operator: try again when they are answered", MaxAskQueue)
	}
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return refused("the request was given up before the operator answered: try again")
	}
	ctx, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	text := r.whole()
	if len(text) > MaxReadable {
		return refused("the request has %d characters in readable form, %d can be shown: use policy for such requests", len(text), MaxReadable)
	}
	yes, err := j.ask(ctx, text)
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return refused("the request was given up before the operator answered: try again")
	case ctx.Err() != nil:
		return refused("the operator did not answer within %s: try again when somebody is at the terminal", j.timeout)
	case err != nil:
		return refused("the operator cannot be asked (%v): restart borwallet on a terminal", err)
	case !yes:
		return refused("the operator refused to sign: ask them why")
	}
	return nil
}

// NewAsker asks on a terminal. The answer is the question's own code, so that keys struck for one question can not
// answer the next; "no" refuses, anything else is asked again. It is for one question at a time. Its goroutine ends
// when the input does.
func NewAsker(in io.Reader, out io.Writer) Asker {
	lines, ended := make(chan string), make(chan struct{})
	asking := make(chan struct{}, 1) // full while an answer is waited for
	go func() {
		defer close(ended)
		sc := bufio.NewScanner(in)
		for sc.Scan() {
			select {
			case <-asking:
				lines <- sc.Text()
			default: // what is typed without a question is dropped
			}
		}
	}()
	var codes askCodes
	return func(ctx context.Context, text string) (bool, error) {
		select {
		case <-ended:
			return false, io.EOF
		default:
		}
		code := codes.next(text)
		fmt.Fprintf(out, "\n--- to sign ---\n%s\n", text)
		for {
			asking <- struct{}{} // once the form is there to be read, and before an answer is asked for
			fmt.Fprintf(out, "Type %s to sign, no to refuse: ", code)
			select {
			case line := <-lines:
				switch strings.ToLower(strings.TrimSpace(line)) {
				case code:
					return true, nil
				case "no":
					return false, nil
				}
				fmt.Fprintln(out, "that is no answer to this question")
				continue
			case <-ended:
				return false, io.EOF
			case <-ctx.Done():
			}
			fmt.Fprintln(out, "no answer: refused")
			select {
			case <-asking:
			case <-lines: // it came too late
			case <-ended:
			}
			return false, ctx.Err()
		}
	}
}

// askCodes makes the codes of questions: from the request and from a secret, so that nobody can choose two requests
// with the same code.
type askCodes struct {
	secret [32]byte
	asked  uint64
	last   string
}

func (c *askCodes) next(text string) string {
	if c.asked == 0 {
		_, _ = rand.Read(c.secret[:]) // never fails
	}
	for {
		c.asked++
		code := hex.EncodeToString(crypto.Keccak256(c.secret[:], binary.BigEndian.AppendUint64(nil, c.asked), []byte(text))[:askCodeBytes])
		if code != c.last {
			c.last = code
			return code
		}
	}
}
