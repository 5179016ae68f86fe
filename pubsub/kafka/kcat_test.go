package kafka

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// kcat runs kcat (librdkafka) against the server, logged in as 0xabc.
func kcat(t *testing.T, input string, args ...string) string {
	path, err := exec.LookPath("kcat")
	require.NoError(t, err, "kcat is missing; scripts/deps.sh installs it")
	cmd := exec.CommandContext(soon(t), path, append([]string{"-X", "sasl.username=0xabc"}, args...)...)
	cmd.Stdin = strings.NewReader(input)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	require.NoError(t, cmd.Run(), "%v\n%s\n%s", args, out.String(), errs.String())
	return out.String()
}

func TestKcat(t *testing.T) {
	if testing.Short() {
		return // `make check` installs no clients
	}
	t.Parallel()
	f := newFiles(t)
	for name, x := range map[string]struct {
		change func(*Config)
		codecs []string
		args   []string
	}{
		"plain": {nil, []string{"none", "gzip", "snappy", "lz4", "zstd"}, []string{"-X", "security.protocol=SASL_PLAINTEXT", "-X", "sasl.mechanism=PLAIN", "-X", "sasl.password=right"}},
		"tls":   {f.configure, []string{"zstd"}, []string{"-X", "security.protocol=SASL_SSL", "-X", "ssl.ca.location=" + f.path("ca.pem"), "-X", "sasl.mechanism=PLAIN", "-X", "sasl.password=right"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := start(t, &passwords{}, x.change)
			args := append([]string{"-b", r.addr}, x.args...)
			at := 0
			for _, codec := range x.codecs {
				var lines strings.Builder
				for k := range 500 {
					fmt.Fprintf(&lines, "%s line %d of a few that compress well well well\n", codec, k)
				}
				kcat(t, lines.String(), append(args, "-P", "-t", "acme.k", "-z", codec, "-X", "enable.idempotence=true")...)
				got := kcat(t, "", append(args, "-C", "-t", "acme.k", "-o", fmt.Sprint(at), "-e", "-q")...)
				require.Equal(t, lines.String(), got, codec)
				at += 500
				raw := r.h.topics["acme.k"].batches
				require.Equal(t, codec == "none", raw[len(raw)-1][22]&7 == 0, "%s: librdkafka compresses only if the broker speaks old versions too", codec)
			}
			require.Contains(t, kcat(t, "", append(args, "-L")...), `topic "acme.k" with 1 partitions`)
		})
	}
}
