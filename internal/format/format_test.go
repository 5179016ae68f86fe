package format

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/internal/vfs/faultfs"
)

func textOf(t *testing.T, fs vfs.FS) string {
	t.Helper()
	b, err := vfs.ReadFile(fs, FileName, maxFileBytes)
	require.NoError(t, err)
	return string(b)
}

// A folder is stamped once for each kind, and other kinds' lines stay.
func TestFolderNamesEachKindOnce(t *testing.T) {
	fs := vfs.OS(t.TempDir(), vfs.Private)
	require.NoError(t, Check(fs, "dir", Node))
	for _, k := range []Kind{Pool, Node, Pool} {
		require.NoError(t, Stamp(fs, "dir", k))
		require.NoError(t, Check(fs, "dir", k))
	}
	require.Equal(t, "bornode node 2\nbornode pool 1\n", textOf(t, fs))
	require.NoError(t, fs.Remove(FileName))
	require.NoError(t, Stamp(fs, "dir", Pool))
	require.Equal(t, "bornode pool 1\n", textOf(t, fs), "removing the file harms nothing")
}

// A line that says another version of the kind is refused in one sentence, and left as it is.
func TestUnknownFormatIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		"bornode state 2\n":                              "folder dir holds state data of format 2, and this program knows format 1: use the program that wrote it",
		"bornode state 01\n":                             "format 01,",
		"bornode pool 1\nbornode state 2 of two parts\n": "format 2 of two parts,",
		"bornode state \n":                               "format ,",
		"bornode state 1\r\n":                            `format 1\r,`,
		"bornode state " + strings.Repeat("9", 4000):     "format 999",
	} {
		d := faultfs.New()
		require.NoError(t, vfs.ReplaceFile(d, FileName, []byte(text)))
		before := d.Changes()
		for _, try := range []func(vfs.FS, string, Kind) error{Check, Stamp} {
			err := try(d, "dir", State)
			require.ErrorIs(t, err, ErrUnknown, "%q", text)
			require.ErrorContains(t, err, says)
			require.NotContains(t, err.Error(), "\n")
			require.Less(t, len(err.Error()), 400)
		}
		require.Equal(t, before, d.Changes())
	}
	d := faultfs.New()
	require.NoError(t, vfs.ReplaceFile(d, FileName, []byte("bornode state 2\n")))
	require.NoError(t, Check(d, "dir", Pool), "another kind's version is not this kind's")
}

// One turned bit of the file, or a file that a disk has emptied, costs a start at most where it makes the version another
// one; else the line is written again.
func TestDamagedFileSaysNothing(t *testing.T) {
	sound := "bornode pool 1\nbornode state 1\n"
	check := func(text string) (refused bool) {
		d := faultfs.New()
		require.NoError(t, vfs.ReplaceFile(d, FileName, []byte(text)))
		err := Stamp(d, "dir", State)
		if err != nil {
			require.ErrorIs(t, err, ErrUnknown)
			return true
		}
		require.Contains(t, textOf(t, d), "bornode state 1\n")
		return false
	}
	for _, text := range []string{"", "\n", sound[:20], string(make([]byte, len(sound)))} {
		require.False(t, check(text), "%q", text)
	}
	for bit := range 8 * len(sound) {
		text := []byte(sound)
		text[bit/8] ^= 1 << (bit % 8)
		require.Equal(t, bit/8 >= len(sound)-2, check(string(text)), "%q", text) // the version and what ends its line
	}
}

// A power cut at any operation leaves the file whole or absent, and what was stamped stays.
func TestStampSurvivesAPowerCut(t *testing.T) {
	for at, ended := 1, false; !ended; at++ {
		for seed := range uint64(4) {
			d := faultfs.New()
			d.SetPlan(func(c faultfs.Change) faultfs.Verdict { return faultfs.Verdict{Crash: c.Number == at} }, seed)
			stamped := Stamp(d, "dir", Pool) == nil
			ended = stamped && Stamp(d, "dir", Node) == nil
			left := d.Crashed()
			if left == nil {
				left = d.Crash(seed)
			}
			require.NoError(t, Check(left, "dir", Node))
			lines, err := read(left, "dir", Pool)
			require.NoError(t, err)
			require.True(t, !stamped || lines[Pool] == "1")
			require.True(t, !ended || lines[Node] == "2")
		}
	}
}

// Every kind has a version, and a name that is a word.
func TestKindsAreWords(t *testing.T) {
	for k, v := range versions {
		require.Regexp(t, `^[a-z-]+$`, string(k))
		require.Positive(t, v)
	}
}
