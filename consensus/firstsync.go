package consensus

import (
	"fmt"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"go.uber.org/zap"

	"github.com/bornode/bornode/consensus/dpos"
)

// silence is why a signer casts no vote, for people: cause changes when what it waits for does, text says it all. The
// signer is silent.
func (d *Driver) silence(w *dpos.Waiting) (cause, text string) {
	switch {
	case w.Base > 0:
		return "base", fmt.Sprintf("the chain was recovered from block %d, which this node fetches first", w.Base)
	case w.Floor > 0:
		return "floor", d.silenceOfForgetful(w)
	case w.Renewing:
		return "renewing", "it begins a further session, since another instance of it signed or may have"
	case w.Answers > 0:
		text = fmt.Sprintf("it votes after %d more producers have told what they hold of its signatures; not heard since this start: %s", w.Answers, listed(w.Unheard))
		if w.Overdue {
			return "overdue", text + "; it seals blocks meanwhile; start them, or connect this node to them"
		}
		return "answers", text
	case w.Certified > 0:
		return "lib", fmt.Sprintf("a producer showed a final block of slot %d, which this node fetches first", w.Certified)
	case w.Further > 0:
		return "further", fmt.Sprintf("enough producers have told what they hold of its signatures; it waits for the others up to slot %d: %s", w.Further, listed(w.Unheard))
	case w.Line > 0:
		return "line", fmt.Sprintf("it signs nothing for slots up to %d, which an earlier run may have signed for", w.Line)
	}
	return "start", "it does not run yet"
}

func listed(accounts []common.Address) string {
	names := make([]string, len(accounts))
	for i, a := range accounts {
		names[i] = a.String()
	}
	return strings.Join(names, ", ")
}

// silenceOfForgetful says how a producer that may have signed what it does not remember comes to vote again.
func (d *Driver) silenceOfForgetful(w *dpos.Waiting) string {
	above := fmt.Sprintf("slot %d", w.Floor)
	if w.Floor <= 1 {
		above = "a slot that is chosen once the time of the network is known"
	}
	text := fmt.Sprintf("it may have signed what its vote log does not hold (a lost log, or an old copy of the data directory); it votes again when the chain proves a block above %s justified by the others' votes", above)
	r := &w.Rest
	switch {
	case r.Missing > 0:
		text += fmt.Sprintf(", or when %d more producers have told what they hold of its signatures", r.Missing)
		if len(w.Unheard) > 0 {
			text += " (not heard: " + listed(w.Unheard) + ")"
		}
		if r.Missing == 1 && !r.Accepted && w.Floor > 1 { // the word is for a floor that is chosen
			text += "; if that one is lost for good, borcli producer accept does without it"
		}
	case !r.Held:
		text += fmt.Sprintf(", or when it holds the block of slot %d, which others showed to be justified", r.Justified)
	case w.Floor <= 1:
		text += ", or later by what the others have told"
	default:
		text += fmt.Sprintf(", or from slot %d on by what the others have told", r.From)
	}
	return text
}

// tellSilence logs once why the signer is silent, again when the cause changes, and once that it signs.
func (c *core) tellSilence(cause, text string) {
	if cause == c.silent {
		return
	}
	if (c.silent == "") != (cause == "") {
		c.silentSince = c.d.deps.Now()
	}
	if c.silent != "" {
		c.d.m.silence.WithLabelValues(c.silent).Set(0)
	}
	c.silent = cause
	c.d.m.silentSince.Set(0)
	if cause != "" {
		c.d.m.silence.WithLabelValues(cause).Set(1)
		c.d.m.silentSince.Set(float64(c.silentSince.Unix()))
	}
	log := c.d.log.With(zap.Stringer("producer", c.d.self))
	switch cause {
	case "":
		log.Info("the signer signs from now on", zap.Uint64("slot", c.d.slotNow()), zap.Uint64("lib", c.machine.LIB().Height))
	case "floor", "overdue", "renewing", "ahead", "lost clocks", "fork", "key":
		log.Warn("the signer casts no vote: " + text)
	default:
		log.Info("the signer casts no vote yet: " + text)
	}
}
