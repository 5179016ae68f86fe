package txpool

import (
	"errors"
	"fmt"

	"github.com/bornode/bornode/internal/exit"
)

// CheckJournal reads the journal of a stopped node as a start would, and changes nothing. No path is no journal.
func CheckJournal(cfg *Config) []exit.Finding {
	if cfg.Journal == "" {
		return nil
	}
	j := newJournal(nil, cfg.Journal)
	txs, err := readJournal(j.fs, j.name, journalReadable(cfg))
	f := exit.Finding{Part: "pool", File: cfg.Journal}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, errTorn):
		f.Problem, f.Harmless = fmt.Sprintf("behind %d whole transactions it ends within one, as a kill while it was written leaves it", len(txs)), true
		f.Remedy = "the next start cuts it off"
	default:
		f.Problem = fmt.Sprintf("the journal of waiting transactions is damaged: %v", err)
		f.Remedy = fmt.Sprintf("the next start sets it aside and takes the %d transactions before the damage; submit the others again", len(txs))
	}
	return []exit.Finding{f}
}
