package consensus

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/ethereum/go-ethereum/common"

	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
)

// voteLogRemedy is what helps a vote log that a node cannot start with: it must not sign what it might have signed before.
const voteLogRemedy = "put back the copy of a moment when the node had stopped, or move the file away: the node then signs nothing until what it may have signed before cannot matter any more"

// missingLogRemedy is the same for a log that is not there.
const missingLogRemedy = "put back the copy of a moment when the node had stopped; without one, and in a folder that was restored from a backup, the node signs nothing until what it may have signed before cannot matter any more"

// unreadableRemedy helps where a log cannot be read at all.
const unreadableRemedy = "give the node's account the right to read it, or replace the disk"

// findingsOf makes what is told of the log at path.
func findingsOf(path string) func(harmless bool, remedy, format string, args ...any) []exit.Finding {
	return func(harmless bool, remedy, format string, args ...any) []exit.Finding {
		return []exit.Finding{{Part: "votes", File: path, Problem: fmt.Sprintf(format, args...), Remedy: remedy, Harmless: harmless}}
	}
}

// CheckMarksLog reads the log in dir in which an observer keeps the producers' signatures, and changes nothing. It must not run beside
// a process that uses the folder.
func CheckMarksLog(dir string, genesis common.Hash) []exit.Finding {
	path := filepath.Join(dir, marksLogName)
	finding := findingsOf(path)
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return finding(false, unreadableRemedy, "the log of others' signatures cannot be read: %v", err)
	}
	const remedy = "move the file away: the node begins a new one, and tells producers that start less of what they signed"
	if err := checkVoteLogHeader(path, raw, common.Address{}, genesis); err != nil {
		return finding(false, remedy, "%v", err)
	}
	payloads, cut, damaged := readEntries(raw)
	_, err = decodePayloads(payloads)
	switch {
	case err != nil:
		return finding(false, remedy, "%v", err)
	case damaged:
		return finding(true, "the next start keeps a copy of it and goes on with the others", "entries from byte %d on are damaged, which were on the disk", cut)
	}
	return nil
}

// CheckVoteLog reads the vote log in dir as a start of the producer would, and changes nothing. used says that the
// folder has blocks, so that a missing log is a lost one. It must not run beside a process that uses the folder.
func CheckVoteLog(dir string, account common.Address, genesis common.Hash, used bool) []exit.Finding {
	path := filepath.Join(dir, voteLogName)
	finding := findingsOf(path)
	raw, err := os.ReadFile(path)
	switch {
	case errors.Is(err, os.ErrNotExist) && !used:
		return nil
	case errors.Is(err, os.ErrNotExist):
		return finding(false, missingLogRemedy, "the vote log is missing, and the folder has blocks")
	case err != nil:
		return finding(false, unreadableRemedy, "the vote log cannot be read: %v", err)
	}
	if err := checkVoteLogHeader(path, raw, account, genesis); err != nil {
		return finding(false, voteLogRemedy, "%v", err)
	}
	payloads, cut, damaged := readEntries(raw)
	held, err := decodePayloads(payloads)
	isCopy := false
	if err == nil {
		isCopy, err = markedCopy(vfs.OS(dir, vfs.Private))
	}
	switch {
	case err != nil:
		return finding(false, voteLogRemedy, "%v", err)
	case damaged:
		return finding(false, "the next start keeps a copy of it and signs nothing until what was lost cannot matter any more; a copy of a moment when the node had stopped spares the wait",
			"entries from byte %d on are damaged, which were on the disk", cut)
	case cut < len(raw):
		return finding(true, "the next start keeps a copy of the file and cuts them off", "its last %d bytes are no whole entry, as a crash while it was written leaves them", len(raw)-cut)
	case held.lost || isCopy:
		return finding(true, "the node signs again when what it may have signed before cannot matter any more", "it does not tell all that was signed")
	}
	return nil
}
