package main

import (
	"context"
	"crypto/ecdsa"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ethereum/go-ethereum/accounts/keystore"
	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/ethereum/go-ethereum/crypto"
	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/bornode/bornode/genesis"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/recovery"
)

// Bounds of what sign reads.
const (
	maxRecoveryKeyBytes = 64 << 10
	maxRecoveryLogBytes = maxRecoveryLog * 512
	maxRecoveryLog      = 1 << 16 // entries: a key has one for each recovery of a chain, which has at most 256
)

// signFlags are the flags of sign.
type signFlags struct {
	key, passwordFile, log, hash, genesis, out string
	allowAhead                                 bool
}

func recoverSignCommand() *cobra.Command {
	var o signFlags
	cmd := &cobra.Command{
		Use:   "sign FILE",
		Short: "Sign a recovery with a recovery key",
		Long: `Sign a recovery. Without --hash it only prints what the recovery says; the hash is given by those who read it, and agreed on
by another way than the file. What was signed stands in a log beside the key, and a second recovery with the same predecessor
is refused, with exit code 7: two such signatures prove to anybody that the key broke its rule. Keep the log with the key.

What no node would ever apply is refused before the key is read, with exit code 7, and so is a recovery that is ahead of this
machine's clock: prepared more than an hour ahead, or with a first slot that begins more than a day ahead.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return signRecovery(cmd.Context(), cmd.OutOrStdout(), args[0], o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.key, "key", "", "key file: geth keystore, 64 hexadecimal digits, or a node's keys/producer.json (mode 0600)")
	f.StringVar(&o.passwordFile, "password-file", "", "file with the keystore's password (mode 0600); empty: it is asked for")
	f.StringVar(&o.log, "log", "", "file that lists what the key signed; empty: the key file's name with .recoveries")
	f.StringVar(&o.hash, "hash", "", "hash of the recovery, as agreed with the other operators")
	f.StringVar(&o.genesis, "genesis", "", "the network's genesis file")
	f.StringVar(&o.out, "out", "", "file to write; empty: FILE itself")
	f.BoolVar(&o.allowAhead, allowAhead, false, allowAheadUsage)
	for _, name := range []string{"key", "genesis"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func signRecovery(ctx context.Context, w io.Writer, path string, o signFlags) error {
	gen, err := genesis.Load(o.genesis)
	if err != nil {
		return err
	}
	s := new(recovery.Signed)
	if err := readDocument(path, s); err != nil {
		return err
	}
	describe(w, s, gen)
	if err := checkSignable(s, gen, time.Now(), o.allowAhead); err != nil {
		return err
	}
	if err := checkAgreed(s, o.hash); err != nil {
		return err
	}
	key, err := openRecoveryKey(ctx, o.key, o.passwordFile)
	if err != nil {
		return err
	}
	signer := crypto.PubkeyToAddress(key.PublicKey)
	keys, threshold := gen.RecoveryKeys()
	if !slices.Contains(keys, signer) {
		return refusal{fmt.Errorf("the key in %s is of account %s, which is no recovery key of the genesis file: nothing was signed, take a key of one of %v", o.key, signer, keys)}
	}
	if err := recordSigned(orWord(o.log, o.key+".recoveries"), signer, &s.Statement, time.Now()); err != nil {
		return err
	}
	hash := s.Hash()
	raw, err := crypto.Sign(hash[:], key)
	if err != nil {
		return fmt.Errorf("sign recovery %s: %w", hash, err)
	}
	x := recovery.Signature{Signer: signer}
	copy(x.Seal[:], raw)
	if err := s.AddSignature(x); err != nil {
		return err
	}
	out := orWord(o.out, path)
	if err := writeDocument(w, out, s); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "signed by %s and written to %s: %d of %d recovery keys of the genesis file signed, %d have to\n", signer, out, len(s.SignersOf(keys)), len(keys), threshold)
	return err
}

// checkSignable checks all that apply will ask of the recovery and that needs no folder: a signature spends the key on it.
func checkSignable(s *recovery.Signed, gen *genesis.Genesis, now time.Time, ahead bool) error {
	if err := node.CheckSignable(s, gen); err != nil {
		return refusal{fmt.Errorf("%w: nothing was signed", err)}
	}
	if err := checkNotAhead(&s.Statement, gen, now, ahead); err != nil {
		return refusal{fmt.Errorf("nothing was signed: %w", err)}
	}
	return nil
}

// checkAgreed checks that the recovery's hash is the one that the operators agreed on.
func checkAgreed(s *recovery.Signed, agreed string) error {
	hash := s.Hash()
	switch b, err := hexutil.Decode(agreed); {
	case agreed == "":
		return fmt.Errorf("nothing was signed: read what stands above, agree on the hash with the other operators by another way than this file, and give it by --hash %s", hash)
	case err != nil || len(b) != common.HashLength:
		return fmt.Errorf("--hash %q is no hash: give 0x and 64 hexadecimal digits", agreed)
	case common.BytesToHash(b) != hash:
		return refusal{fmt.Errorf("the file holds recovery %s, and --hash is %s: nothing was signed, ask for the file that the operators agreed on", hash, agreed)}
	}
	return nil
}

// openRecoveryKey reads a key file of any known form.
func openRecoveryKey(ctx context.Context, path, passwordFile string) (*ecdsa.PrivateKey, error) {
	b, err := vfs.ReadPrivateFile(path, maxRecoveryKeyBytes)
	if err != nil {
		return nil, err
	}
	defer clear(b)
	text := strings.TrimSpace(string(b))
	if !strings.HasPrefix(text, "{") {
		raw, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
		defer clear(raw)
		if err != nil {
			return nil, noKey(path)
		}
		return keyOf(path, raw)
	}
	var x struct {
		Crypto json.RawMessage `json:"crypto"`
		Seal   hexutil.Bytes   `json:"seal_key"`
	}
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, noKey(path)
	}
	defer clear(x.Seal)
	if len(x.Seal) > 0 {
		return keyOf(path, x.Seal)
	}
	if len(x.Crypto) == 0 {
		return nil, noKey(path)
	}
	password, err := askPassword(ctx, path, passwordFile)
	if err != nil {
		return nil, err
	}
	key, err := keystore.DecryptKey(b, password)
	if errors.Is(err, keystore.ErrDecrypt) {
		return nil, fmt.Errorf("the password of %s is wrong: nothing was signed", path)
	}
	if err != nil {
		return nil, fmt.Errorf("key file %s: %w", path, err)
	}
	return key.PrivateKey, nil
}

func noKey(path string) error {
	return fmt.Errorf("key file %s holds no key: give a geth keystore, 64 hexadecimal digits or a node's keys/producer.json", path)
}

func keyOf(path string, raw []byte) (*ecdsa.PrivateKey, error) {
	key, err := crypto.ToECDSA(raw)
	if err != nil {
		return nil, noKey(path)
	}
	return key, nil
}

// askPassword reads the password from its file, or asks on the terminal without echo; an end of ctx is noticed behind the answer.
func askPassword(ctx context.Context, path, file string) (string, error) {
	if file != "" {
		b, err := vfs.ReadPrivateFile(file, maxRecoveryKeyBytes)
		return strings.TrimRight(string(b), "\r\n"), err
	}
	fd := int(os.Stdin.Fd()) //nolint:gosec // a descriptor
	if !term.IsTerminal(fd) {
		return "", fmt.Errorf("%s is a keystore and no password was given: name a file by --password-file, or run this on a terminal", path)
	}
	fmt.Fprintf(os.Stderr, "password of %s: ", path)
	b, err := term.ReadPassword(fd)
	fmt.Fprintln(os.Stderr)
	if err == nil {
		err = ctx.Err()
	}
	return string(b), err
}

// signedEntry is one line of a key's log.
type signedEntry struct {
	Signer   common.Address `json:"signer"`
	Genesis  common.Hash    `json:"genesis"`
	Domain   uint64         `json:"domain"`
	Previous common.Hash    `json:"previous"`
	Hash     common.Hash    `json:"hash"`
	Time     time.Time      `json:"time"`
}

// recordSigned writes into a key's log that it signs a statement, durably, before it does. It refuses a second one with the same
// predecessor, and one whose domain does not follow that of its predecessor; the same one may be signed again. Two processes at once
// wait for nobody: the second is refused. No entry is ever removed.
func recordSigned(path string, signer common.Address, s *recovery.Statement, now time.Time) error {
	files, name := vfs.OS(filepath.Dir(path), vfs.Private), filepath.Base(path)
	lock, err := files.Lock(name + ".lock")
	if err != nil {
		return fmt.Errorf("lock the log %s of what the key signed: %w", path, err)
	}
	defer lock.Close()
	list, err := readSignedLog(files, path, name)
	if err != nil {
		return err
	}
	e := signedEntry{signer, s.Genesis, s.Number, s.Previous, s.Hash(), now.UTC()}
	for _, o := range list {
		if o.Genesis == e.Genesis && o.Hash == e.Previous && o.Domain+1 != e.Domain {
			return refusal{fmt.Errorf("recovery %s opens domain %d, and its predecessor %s opens domain %d: no node applies it, so nothing was signed; ask for the file that the operators agreed on", e.Hash, e.Domain, o.Hash, o.Domain)}
		}
	}
	for _, o := range list {
		if o.Signer != e.Signer || o.Genesis != e.Genesis || o.Previous != e.Previous {
			continue
		}
		if o.Hash == e.Hash {
			return nil
		}
		return refusal{fmt.Errorf("%s signed recovery %s at %s, which has the same predecessor: nothing was signed; a second signature would prove to anybody that this key broke its rule, so go on with the first recovery", signer, o.Hash, o.Time.Format(timeForm))}
	}
	if len(list) >= maxRecoveryLog {
		return refusal{fmt.Errorf("the log %s holds %d recoveries, as many as a log can: nothing was signed. An empty log would let the key sign a second recovery with one predecessor: keep this one, and let the holders of other recovery keys sign", path, len(list))}
	}
	b, err := json.MarshalIndent(append(list, e), "", "  ")
	if err == nil {
		err = vfs.ReplaceFile(files, name, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write the log %s of what the key signed: %w; nothing was signed", path, err)
	}
	return nil
}

func readSignedLog(files vfs.FS, path, name string) (list []signedEntry, err error) {
	b, err := vfs.ReadFile(files, name, maxRecoveryLogBytes)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fmt.Errorf("the log %s of what the key signed cannot be read, so nothing was signed: put it back from a copy (%w)", path, err)
	}
	return list, nil
}
