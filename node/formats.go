package node

import (
	"errors"
	"path/filepath"

	"github.com/bornode/bornode/blockstore"
	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/format"
)

// folderOf is a folder of a node and a kind of data in it.
type folderOf struct {
	dir  string
	kind format.Kind
}

// foldersOf is every folder in which a node with these settings keeps data.
func foldersOf(c *config.Config) []folderOf {
	topics := c.Path(c.PubSub.Dir)
	list := []folderOf{
		{c.DataDir, format.Node}, {c.Path(c.Store.Dir), format.Blocks}, {c.Path(c.Chain.Dir), format.State},
		{c.Path(c.Consensus.Dir), format.Consensus},
		{topics, format.Broker}, {filepath.Join(topics, c.PubSub.Store.Dir), format.Topics}, {filepath.Join(topics, evidenceFolder), format.Evidence},
	}
	if c.Pool.Journal != "" {
		list = append(list, folderOf{filepath.Dir(c.Path(c.Pool.Journal)), format.Pool})
	}
	if c.RPC.LogIndex != "" {
		list = append(list, folderOf{filepath.Dir(c.Path(c.RPC.LogIndex)), format.LogIndex})
	}
	return list
}

// CheckFormats refuses a node's folders if one of them is of a format that this program does not know
// (format.ErrUnknown). It changes nothing: whoever uses or looks at a node's folder calls it before anything else.
func CheckFormats(c *config.Config) error {
	for _, f := range foldersOf(c) {
		if err := format.CheckFolder(f.dir, f.kind); errors.Is(err, format.ErrUnknown) { // what cannot be read, its part tells
			return err
		}
	}
	return blockstore.CheckForm(c.Path(c.Store.Dir))
}
