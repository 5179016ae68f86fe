package rpc

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
)

// An answer that lacks receipts advises to rebuild what is lost, and to wait where nothing is.
func TestAnswerWithoutReceiptsNamesTheReason(t *testing.T) {
	cause := errors.New("the index of older states is being built again")
	lost := unreadable("receipts", block.ErrNoReceipts{Height: 7, Cause: cause})
	require.ErrorContains(t, lost, "bornode rebuild state")
	soon := unreadable("receipts", block.ErrNoReceipts{Height: 7, Cause: block.NotReady{Cause: cause}})
	require.ErrorContains(t, soon, "cannot be made again yet: "+cause.Error())
	require.ErrorContains(t, soon, "ask again later")
	require.NotContains(t, soon.Error(), "rebuild state")
	for _, err := range []error{lost, soon} {
		var e *Error
		require.ErrorAs(t, err, &e)
		require.Equal(t, missingReceiptsJSON{7}, e.Data)
	}
}
