package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	gethrpc "github.com/ethereum/go-ethereum/rpc"
)

// signerStatus is what bor_signer answers.
type signerStatus struct {
	Account        common.Address   `json:"account"`
	Votes          bool             `json:"votes"`
	Cause          string           `json:"cause,omitempty"`
	Why            string           `json:"why,omitempty"`
	Since          int64            `json:"since"`
	Session        hexutil.Uint64   `json:"session"`
	MissingAnswers hexutil.Uint64   `json:"missingAnswers"`
	Unheard        []common.Address `json:"unheard,omitempty"`
	Line           hexutil.Uint64   `json:"line,omitempty"`
	Floor          hexutil.Uint64   `json:"floor,omitempty"`
	RestFrom       hexutil.Uint64   `json:"restFrom,omitempty"`
	RestMissing    hexutil.Uint64   `json:"restMissing,omitempty"`
	Accepted       bool             `json:"accepted,omitempty"`
}

// signerInfo shows what the node's signer does and waits for.
func (a *app) signerInfo(ctx context.Context) error {
	var s *signerStatus
	if err := a.ask(ctx, &s, "bor_signer"); err != nil {
		return err
	}
	if s == nil {
		return fail(exitNotFound, "the node signs for no producer: ask the producer's own node, with --node")
	}
	return a.showSigner(s)
}

// acceptAnswers gives the operator's word for one answer that is missing.
func (a *app) acceptAnswers(ctx context.Context) error {
	var s *signerStatus
	err := a.ask(ctx, &s, "admin_acceptAnswers")
	var answer gethrpc.Error
	if errors.As(err, &answer) && answer.ErrorCode() == methodNotFound {
		return fail(exitUsage, "the node takes this from its operator alone: give the path of its Unix socket (rpc.ipc_path) as --node")
	}
	if err != nil {
		return err
	}
	return a.showSigner(s)
}

func (a *app) showSigner(s *signerStatus) error {
	return a.show(s, func(w io.Writer) {
		state := "casts votes"
		if !s.Votes {
			state = "casts no vote"
		}
		rows := []pair{{"account", s.Account.Hex()}, {"signer", state}, {"since", when(uint64(max(0, s.Since)), uint64(time.Now().Unix()))}, //nolint:gosec // not negative
			{"start", fmt.Sprint(uint64(s.Session))}}
		if !s.Votes {
			rows = append(rows, pair{"why", s.Why})
		}
		for i, who := range s.Unheard {
			rows = append(rows, pair{map[bool]string{true: "not heard"}[i == 0], who.Hex()})
		}
		switch {
		case s.Floor > 1:
			rows = append(rows, pair{"floor", fmt.Sprintf("slot %d", uint64(s.Floor))}, pair{"by answers", fmt.Sprintf("%d more, from slot %d on", uint64(s.RestMissing), uint64(s.RestFrom))})
		case s.Floor == 1: // no slot yet
			rows = append(rows, pair{"floor", "chosen once the time of the network is known"})
		}
		if s.Accepted {
			rows = append(rows, pair{"accepted", "one answer fewer, by the operator's word"})
		}
		lines(w, rows...)
	})
}
