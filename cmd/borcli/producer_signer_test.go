package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
)

// A floor that is not chosen yet is told as that, without the slots that follow from it.
func TestSignerFloorIsShown(t *testing.T) {
	shown := func(s signerStatus) string {
		var out bytes.Buffer
		require.NoError(t, (&app{surroundings: surroundings{out: &out}}).showSigner(&s))
		return out.String()
	}
	due := shown(signerStatus{Why: "it may have signed", Floor: 1, RestFrom: 64, RestMissing: 2})
	require.Regexp(t, `floor +chosen once the time of the network is known`, due)
	require.NotContains(t, due, "by answers")
	require.NotContains(t, due, "slot")
	chosen := shown(signerStatus{Why: "it may have signed", Floor: 40, RestFrom: 104, RestMissing: 2})
	require.Regexp(t, `floor +slot 40\n`, chosen)
	require.Regexp(t, `by answers +2 more, from slot 104 on\n`, chosen)
	require.NotContains(t, shown(signerStatus{Votes: true}), "floor")
}
