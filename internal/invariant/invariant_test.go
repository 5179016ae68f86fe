package invariant

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThat(t *testing.T) {
	require.NotPanics(t, func() { That(true, "never") })
	require.PanicsWithValue(t, "invariant broken: height 3 above 2", func() { That(false, "height %d above %d", 3, 2) })
}
