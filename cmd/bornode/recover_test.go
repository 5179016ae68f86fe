package main

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/recovery"
)

// recoveryWorld is a network's genesis file and key files, without a node.
type recoveryWorld struct {
	t       *testing.T
	dir     string
	gen     *genesis.Genesis
	signers []*signer.Local
}

func newRecoveryWorld(t *testing.T) *recoveryWorld {
	w := &recoveryWorld{t: t, dir: t.TempDir()}
	o := genesis.Options{ChainID: 4711, GenesisTime: 1_700_000_000}
	for range 4 {
		s, err := signer.Generate(rand.Reader)
		require.NoError(t, err)
		require.NoError(t, s.Save(w.path(s.Account().Hex())))
		w.signers = append(w.signers, s)
		o.Producers = append(o.Producers, genesis.Producer{Account: s.Account(), BLSKey: s.VoteKey(), Proof: s.ProvePossession(o.ChainID)})
	}
	gen, err := genesis.New(o)
	require.NoError(t, err)
	require.NoError(t, gen.Write(w.path("genesis.json")))
	w.gen = gen
	return w
}

func (w *recoveryWorld) path(name string) string { return filepath.Join(w.dir, name) }

func (w *recoveryWorld) key(i int) string { return w.path(w.signers[i].Account().Hex()) }

// statement writes an unsigned one to a file; tweak may change it.
func (w *recoveryWorld) statement(name string, tweak func(*recovery.Statement)) (path string, hash common.Hash) {
	zero, err := w.gen.Block()
	require.NoError(w.t, err)
	s := recovery.Statement{
		Genesis: zero.Hash(), Number: 1, Base: recovery.Base{Block: recovery.Block{Height: 9, Slot: 20, Hash: common.Hash{1}, StateRoot: common.Hash{2}}},
		FirstSlot: 40, Lost: []common.Address{w.signers[3].Account()}, Reason: "a fire", Time: 1_700_000_100,
	}
	for _, x := range w.signers[:2] {
		s.Seats = append(s.Seats, recovery.Seat{Account: x.Account(), SealKey: x.Account(), VoteKey: x.VoteKey(), Proof: x.ProvePossession(4711)})
	}
	if tweak != nil {
		tweak(&s)
	}
	require.NoError(w.t, writeDocument(nil, w.path(name), &recovery.Signed{Statement: s}))
	return w.path(name), s.Hash()
}

func (w *recoveryWorld) run(args ...string) (said string, err error) {
	var out bytes.Buffer
	cmd := root()
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	cmd.SetArgs(append([]string{"recover"}, args...))
	err = cmd.Execute()
	return out.String(), err
}

func (w *recoveryWorld) sign(path string, key string, hash common.Hash, more ...string) (string, error) {
	return w.run(append([]string{"sign", path, "--key", key, "--genesis", w.path("genesis.json"), "--hash", hash.Hex()}, more...)...)
}

func TestRecoveryIsSignedByItsHash(t *testing.T) {
	w := newRecoveryWorld(t)
	path, hash := w.statement("r.json", nil)
	said, err := w.run("sign", path, "--key", w.key(0), "--genesis", w.path("genesis.json"))
	require.ErrorContains(t, err, "nothing was signed")
	require.Contains(t, said, hash.Hex(), "what is to be signed is shown first")
	require.Contains(t, said, "a fire")
	_, err = w.sign(path, w.key(0), common.Hash{1})
	require.ErrorContains(t, err, "nothing was signed")
	require.Equal(t, exit.Refused, exit.Code(err))
	require.NoFileExists(t, w.key(0)+".recoveries")

	for i, want := range []string{"1 of 4", "2 of 4", "3 of 4"} {
		said, err = w.sign(path, w.key(i), hash)
		require.NoError(t, err)
		require.Contains(t, said, want)
	}
	said, err = w.run("show", path, "--genesis", w.path("genesis.json"))
	require.NoError(t, err)
	require.Contains(t, said, "3 of 4 recovery keys signed, 3 have to: it can be applied")
	s := new(recovery.Signed)
	require.NoError(t, readDocument(path, s))
	keys, threshold := w.gen.RecoveryKeys()
	require.NoError(t, s.Verify(keys, threshold))
}

// The rule that makes two recoveries provable: a key signs one successor of a recovery, whatever it is asked.
func TestSecondRecoveryIsRefused(t *testing.T) {
	w := newRecoveryWorld(t)
	path, hash := w.statement("r.json", nil)
	other, otherHash := w.statement("other.json", func(s *recovery.Statement) { s.FirstSlot++ })
	_, err := w.sign(path, w.key(0), hash)
	require.NoError(t, err)
	_, err = w.sign(path, w.key(0), hash)
	require.NoError(t, err, "the same one may be signed again")
	_, err = w.sign(other, w.key(0), otherHash)
	require.ErrorContains(t, err, "has the same predecessor: nothing was signed")
	require.Equal(t, exit.Refused, exit.Code(err))
	unsigned := new(recovery.Signed)
	require.NoError(t, readDocument(other, unsigned))
	require.Empty(t, unsigned.Signatures)

	next, nextHash := w.statement("next.json", func(s *recovery.Statement) { s.Number, s.Previous = 2, hash })
	_, err = w.sign(next, w.key(0), nextHash)
	require.NoError(t, err, "its successor is no second one")

	require.NoError(t, os.WriteFile(w.key(0)+".recoveries", []byte("["), 0o600))
	_, err = w.sign(path, w.key(0), hash)
	require.ErrorContains(t, err, "nothing was signed", "a log that cannot be read is not an empty one")
}

func TestPairOfRecoveriesIsShown(t *testing.T) {
	w := newRecoveryWorld(t)
	path, hash := w.statement("r.json", nil)
	other, otherHash := w.statement("other.json", func(s *recovery.Statement) { s.FirstSlot++ })
	_, err := w.sign(path, w.key(0), hash)
	require.NoError(t, err)
	_, err = w.sign(path, w.key(1), hash)
	require.NoError(t, err)
	_, err = w.sign(other, w.key(0), otherHash, "--log", w.path("forgotten"))
	require.NoError(t, err)
	said, err := w.run("show", path, other)
	require.ErrorContains(t, err, "contradict each other")
	require.Equal(t, exit.Refused, exit.Code(err))
	require.Contains(t, said, "1 keys signed both, which this pair of files proves to anybody:\n    "+w.signers[0].Account().Hex())

	_, err = readSigned([]string{path, other})
	require.Equal(t, exit.Refused, exit.Code(err))
	copied, _ := w.statement("copy.json", nil)
	_, err = w.sign(copied, w.key(2), hash)
	require.NoError(t, err)
	both, err := readSigned([]string{path, copied})
	require.NoError(t, err)
	require.Len(t, both.Signatures, 3)
	said, err = w.run("show", path, copied)
	require.NoError(t, err)
	require.Contains(t, said, "both are the same recovery")
}

func TestKeyFilesOfRecoveries(t *testing.T) {
	w := newRecoveryWorld(t)
	path, hash := w.statement("r.json", nil)
	key, err := crypto.GenerateKey()
	require.NoError(t, err)
	address := crypto.PubkeyToAddress(key.PublicKey)
	text, err := keystore.EncryptKey(&keystore.Key{Id: uuid.New(), Address: address, PrivateKey: key}, "secret", keystore.LightScryptN, keystore.LightScryptP)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(w.path("keystore"), text, 0o600))
	require.NoError(t, os.WriteFile(w.path("password"), []byte("secret\n"), 0o600))
	require.NoError(t, os.WriteFile(w.path("hex"), []byte(common.Bytes2Hex(crypto.FromECDSA(key))+"\n"), 0o600))
	require.NoError(t, os.WriteFile(w.path("wrong"), []byte("other"), 0o600))

	_, err = w.sign(path, w.path("keystore"), hash, "--password-file", w.path("wrong"))
	require.ErrorContains(t, err, "is wrong: nothing was signed")
	for _, args := range [][]string{{w.path("keystore"), "--password-file", w.path("password")}, {w.path("hex")}} {
		_, err := w.sign(path, args[0], hash, args[1:]...)
		require.ErrorContains(t, err, "is of account "+address.Hex()+", which is no recovery key", "it was read")
		require.NoFileExists(t, args[0]+".recoveries")
	}

	require.NoError(t, os.Chmod(w.path("hex"), 0o644))
	_, err = w.sign(path, w.path("hex"), hash)
	require.ErrorContains(t, err, "could be read by others")
	_, err = w.sign(path, w.path("genesis.json"), hash)
	require.Error(t, err)
}

// What no operator should sign, however often its hash was agreed on.
func TestStatementsOfOtherChainsAreNotSigned(t *testing.T) {
	w := newRecoveryWorld(t)
	path, hash := w.statement("foreign.json", func(s *recovery.Statement) { s.Genesis[0]++ })
	_, err := w.sign(path, w.key(0), hash)
	require.ErrorContains(t, err, "the genesis file is of")
	path, hash = w.statement("unproven.json", func(s *recovery.Statement) { s.Seats[1].Proof = s.Seats[0].Proof })
	_, err = w.sign(path, w.key(0), hash)
	require.ErrorContains(t, err, "holds its vote key is wrong")
	b, err := os.ReadFile(path)
	require.NoError(t, err)
	var fields map[string]any
	require.NoError(t, json.Unmarshal(b, &fields))
	fields["first_slot"] = 41
	b, err = json.Marshal(fields)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, b, 0o600))
	_, err = w.run("show", path)
	require.ErrorContains(t, err, "it was changed")
}

// A recovery of a preparer whose clock is ahead would have the network wait: no key is spent on it, and no node goes by it, unless its
// operator says that it is meant. How long ago it was prepared does not matter.
func TestRecoveriesAheadOfTheClockAreRefused(t *testing.T) {
	w := newRecoveryWorld(t)
	p := w.gen.Parameters()
	prepared := func(name string, ahead, first time.Duration) (path string, hash common.Hash) {
		return w.statement(name, func(s *recovery.Statement) {
			now := time.Now()
			s.FirstSlot, _ = p.SlotAt(now.Add(first))
			s.Time = uint64(now.Add(ahead).Unix()) //nolint:gosec // after 1970
		})
	}
	for _, c := range []struct {
		name         string
		ahead, first time.Duration
		want         string
	}{
		{"years", 4 * 365 * 24 * time.Hour, 4 * 365 * 24 * time.Hour, "it was prepared at"},
		{"hours", 2 * time.Hour, 0, "it was prepared at"},
		{"first slot", 30 * time.Minute, 24*time.Hour + 20*time.Minute, "its first slot"},
	} {
		path, hash := prepared(c.name, c.ahead, c.first)
		_, err := w.sign(path, w.key(0), hash)
		require.ErrorContains(t, err, "nothing was signed: the recovery is ahead of this machine's clock: "+c.want, c.name)
		require.Equal(t, exit.Refused, exit.Code(err), c.name)
		require.NoFileExists(t, w.key(0)+".recoveries", c.name)
	}
	path, hash := prepared("a clock's error", 30*time.Minute, 23*time.Hour)
	_, err := w.sign(path, w.key(3), hash)
	require.NoError(t, err)

	path, hash = prepared("meant", 2*time.Hour, 3*time.Hour)
	for i := range 3 {
		_, err := w.sign(path, w.key(i), hash, "--allow-ahead")
		require.NoError(t, err)
	}
	dir := w.path("node")
	cmd := root()
	cmd.SetOut(new(bytes.Buffer))
	cmd.SetArgs([]string{"init", "--dir", dir, "--genesis", w.path("genesis.json")})
	require.NoError(t, cmd.Execute())
	_, err = w.run("apply", path, "--dir", dir)
	require.ErrorContains(t, err, "the recovery is ahead of this machine's clock")
	require.Equal(t, exit.Refused, exit.Code(err))
	require.NoDirExists(t, filepath.Join(dir, "recovery"))
	said, err := w.run("apply", path, "--dir", dir, "--allow-ahead")
	require.NoError(t, err)
	require.Contains(t, said, hash.Hex())
}

// A key is not spent on a statement that no node would apply.
func TestWhatNoNodeAppliesIsNotSigned(t *testing.T) {
	w := newRecoveryWorld(t)
	slots := uint64(48*time.Hour/time.Millisecond) / w.gen.Parameters().SlotMillis
	for want, tweak := range map[string]func(*recovery.Statement){
		"begins more than a day after it was prepared": func(s *recovery.Statement) { s.FirstSlot += slots },
		"a chain has at most 256":                      func(s *recovery.Statement) { s.Number, s.Previous = 257, common.Hash{1} },
	} {
		path, hash := w.statement("never.json", tweak)
		_, err := w.sign(path, w.key(0), hash)
		require.ErrorContains(t, err, want)
		require.Equal(t, exit.Refused, exit.Code(err))
	}
	path, hash := w.statement("r.json", nil)
	s := new(recovery.Signed)
	require.NoError(t, readDocument(path, s))
	forged := &recovery.Signed{Statement: s.Statement, Signatures: []recovery.Signature{{Signer: w.signers[1].Account()}}}
	require.NoError(t, writeDocument(nil, w.path("forged.json"), forged))
	_, err := w.sign(w.path("forged.json"), w.key(0), hash)
	require.ErrorContains(t, err, "signature of "+w.signers[1].Account().Hex())
	require.NoFileExists(t, w.key(0)+".recoveries")

	_, err = w.sign(path, w.key(0), hash)
	require.NoError(t, err)
	path, hash = w.statement("third.json", func(s *recovery.Statement) { s.Number, s.Previous = 3, hash })
	_, err = w.sign(path, w.key(0), hash)
	require.ErrorContains(t, err, "opens domain 1: no node applies it")
	require.Equal(t, exit.Refused, exit.Code(err))
}

// However long the log of a key is, no other one is advised: an empty one would let the key sign a second recovery.
func TestLogOfManyRecoveries(t *testing.T) {
	w := newRecoveryWorld(t)
	path, hash := w.statement("r.json", nil)
	fill := func(n int) {
		list := make([]signedEntry, n)
		for i := range list {
			list[i] = signedEntry{w.signers[0].Account(), common.Hash{1}, ^uint64(0), common.Hash{byte(i), byte(i >> 8)}, common.Hash{2}, time.Now()}
		}
		b, err := json.MarshalIndent(list, "", "  ")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(w.key(0)+".recoveries", b, 0o600))
	}
	fill(1024)
	_, err := w.sign(path, w.key(0), hash)
	require.NoError(t, err, "entries of other chains take no room that this one needs")
	fill(1 << 16)
	_, err = w.sign(path, w.key(0), hash)
	require.ErrorContains(t, err, "nothing was signed")
	require.ErrorContains(t, err, "keep this one")
	require.NotContains(t, err.Error(), "--log")
	require.Equal(t, exit.Refused, exit.Code(err))
}
