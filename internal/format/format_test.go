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
	require.Equal(t, "bornode node 2 "+checksum("bornode node 2")+"\nbornode pool 1 "+checksum("bornode pool 1")+"\n", textOf(t, fs))
	require.NoError(t, fs.Remove(FileName))
	require.NoError(t, Stamp(fs, "dir", Pool))
	require.Equal(t, Line(Pool, "1"), textOf(t, fs), "removing the file harms nothing")
}

// A line that says another version of the kind is refused in one sentence, and left as it is.
func TestUnknownFormatIsRefused(t *testing.T) {
	for text, says := range map[string]string{
		Line(State, "2"):  "folder dir holds state data of format 2, and this program knows format 1: use the program that wrote it",
		Line(State, "01"): "format 01,",
		Line(Pool, "1") + Line(State, "2 of two parts"): "format 2 of two parts,",
		Line(State, ""):                        "format ,",
		Line(State, "1\r"):                     `format 1\r,`,
		Line(State, strings.Repeat("9", 4000)): "format 999",
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
	require.NoError(t, vfs.ReplaceFile(d, FileName, []byte(Line(State, "2"))))
	require.NoError(t, Check(d, "dir", Pool), "another kind's version is not this kind's")
}

// One turned bit of the file, a file that a disk has emptied, and a line without a checksum name no version: the line is
// written again.
func TestDamagedFileSaysNothing(t *testing.T) {
	sound := Line(Pool, "1") + Line(State, "1")
	check := func(text string) {
		d := faultfs.New()
		require.NoError(t, vfs.ReplaceFile(d, FileName, []byte(text)))
		require.NoError(t, Stamp(d, "dir", State), "%q", text)
		require.Contains(t, textOf(t, d), Line(State, "1"))
	}
	for _, text := range []string{"", "\n", " \n", sound[:30], "bornode state 2\n", string(make([]byte, len(sound)))} {
		check(text)
	}
	for bit := range 8 * len(sound) {
		text := []byte(sound)
		text[bit/8] ^= 1 << (bit % 8)
		check(string(text))
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
