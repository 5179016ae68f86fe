package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/bornode/bornode/config"
	"github.com/bornode/bornode/internal/exit"
	"github.com/bornode/bornode/internal/vfs"
	"github.com/bornode/bornode/node"
	"github.com/bornode/bornode/recovery"
)

// refusal is an error that only operators can decide about: a recovery contradicts what was signed, applied or final.
type refusal struct{ error }

func (refusal) ExitCode() int   { return exit.Refused }
func (r refusal) Unwrap() error { return r.error }

func recoverCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Go on when more producers are lost than the network can bear",
		Long: `Go on from a block and with producers that operators sign, when so many producers are lost for good that no block becomes
final any more. Nothing here is needed as long as a quorum of producers runs or will run again: wait for them, or repair them.

In this order (docs/operations.md, chapter "Lost quorum"): stop the surviving nodes; report, on each of them; prepare, in the
folder of one; sign, by so many holders of recovery keys as genesis asks for; apply, on every node; start them.`,
	}
	cmd.AddCommand(recoverReportCommand(), recoverPrepareCommand(), recoverSignCommand(), recoverApplyCommand(), recoverShowCommand())
	return cmd
}

func recoverReportCommand() *cobra.Command {
	var out string
	cmd := offline("report", "Write what a surviving producer holds, signed with its key", always, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		r, err := node.SurvivorReport(c, log, time.Now())
		if err != nil {
			return err
		}
		if err := writeDocument(cmd.OutOrStdout(), out, r); err != nil {
			return err
		}
		w := cmd.ErrOrStderr()
		fmt.Fprintf(w, "producer %s: irreversible is block %d of slot %d, newest justified is block %d of slot %d, newest signed slot is %d\n",
			r.Producer, r.LIB.Height, r.LIB.Slot, r.Justified.Height, r.Justified.Slot, r.NewestSlot)
		if r.Incomplete {
			fmt.Fprintln(w, "its vote log may lack what it signed above its last final block, so for what may be undone this producer counts as lost")
		}
		fmt.Fprintln(w, "do not start this node before the recovery is applied or given up: what it signs from now on is not in the report")
		return nil
	})
	cmd.Long = `Write what the producer of a folder holds: its newest final block, the newest justified one with its certificate, and the newest
slot that it signed for. The node must not run; nothing of its folder changes. Give the file to whoever prepares the recovery.`
	cmd.Flags().StringVar(&out, "out", "", "file to write; empty: standard output")
	return cmd
}

// prepareFlags are the flags of prepare.
type prepareFlags struct {
	reports, with, without []string
	out                    string
	o                      node.PrepareOptions
}

func recoverPrepareCommand() *cobra.Command {
	var p prepareFlags
	cmd := offline("prepare", "Make the statement of a recovery from reports of survivors", always, func(cmd *cobra.Command, c *config.Config, log *zap.Logger) error {
		if err := p.readFiles(); err != nil {
			return err
		}
		p.o.Now = time.Now()
		s, choice, err := node.PrepareRecovery(c, p.o, log)
		if errors.Is(err, node.ErrMayUndo) || errors.Is(err, node.ErrReportedLess) {
			return refusal{err}
		}
		if err != nil {
			return err
		}
		gen, err := node.LoadGenesis(c)
		if err != nil {
			return err
		}
		signed := &recovery.Signed{Statement: *s}
		if err := writeDocument(cmd.OutOrStdout(), p.out, signed); err != nil {
			return err
		}
		w := cmd.ErrOrStderr()
		describe(w, signed, gen)
		if !choice.MayUndo {
			fmt.Fprintf(w, "no final block is undone if no more than %d of the %d survivors reported less than they hold\n", choice.Bears, len(choice.Survivors))
		}
		if choice.NeedsTrust && !choice.MayUndo {
			fmt.Fprintln(w, "that is fewer than may be faulty: run prepare in the folders of observers too, which refuse a base below what they know, before anybody signs")
		}
		if choice.Needless {
			fmt.Fprintln(w, "NOT NEEDED: so few producers are missing that the network becomes final without a recovery once the others run; use it only if it does not")
		}
		fmt.Fprintf(w, "compare the hash with the other operators by another way than this file; then each signs: bornode recover sign %s --hash %s --key FILE --genesis FILE\n", orWord(p.out, "FILE"), signed.Hash())
		return nil
	})
	cmd.Long = `Make the unsigned statement of a recovery. The base is the justified block of the highest slot that any report proves; the folder
must hold it and must agree with the reports. The survivors that reported take the seats of the new schedule, in rising order
of their accounts, and the producers given by --with follow them.`
	f := cmd.Flags()
	f.StringArrayVar(&p.reports, "report", nil, "file written by bornode recover report; once for each survivor")
	f.StringArrayVar(&p.with, "with", nil, "file with the keys of a new producer, as bornode init --producer printed them; may be repeated")
	f.StringArrayVar(&p.without, "without", nil, "account of a survivor that takes no seat; may be repeated")
	f.StringVar(&p.o.Reason, "reason", "", "why, in one line: it stays with the chain")
	f.Uint64Var(&p.o.FirstSlot, "first-slot", 0, "first slot of the recovered chain; 0: the present one, above what survivors signed")
	f.BoolVar(&p.o.MayUndo, "may-undo", false, "with a quorum or more lost: blocks that only the lost ones know as final may be undone")
	f.StringVar(&p.out, "out", "", "file to write; empty: standard output")
	for _, name := range []string{"report", "reason"} {
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

// readFiles reads the files that the flags name.
func (p *prepareFlags) readFiles() error {
	p.o.Reports, p.o.New, p.o.Without = nil, nil, nil
	for _, path := range p.reports {
		r := new(recovery.Report)
		if err := readDocument(path, r); err != nil {
			return err
		}
		p.o.Reports = append(p.o.Reports, r)
	}
	for _, path := range p.with {
		var k node.PublicKeys
		if err := readDocument(path, &k); err != nil {
			return err
		}
		p.o.New = append(p.o.New, k)
	}
	for _, a := range p.without {
		if !common.IsHexAddress(a) {
			return fmt.Errorf("--without %q is no account: give 0x and 40 hexadecimal digits", a)
		}
		p.o.Without = append(p.o.Without, common.HexToAddress(a))
	}
	return nil
}

func orWord(s, word string) string {
	if s == "" {
		return word
	}
	return s
}

// writeDocument writes an indented JSON document to a file, whole and durable or not at all, or else to w.
func writeDocument(w io.Writer, path string, v any) error {
	if path == "" {
		return printJSON(w, v)
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	return vfs.ReplaceFile(vfs.OS(filepath.Dir(path), vfs.Private), filepath.Base(path), append(b, '\n'))
}

// readDocument reads a JSON document. Errors name the file.
func readDocument(path string, into any) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, recovery.MaxFileBytes+1))
	if err != nil {
		return err
	}
	if len(b) > recovery.MaxFileBytes {
		return fmt.Errorf("%s has more than %d bytes: it is no file of a recovery", path, recovery.MaxFileBytes)
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// readSigned reads copies of one statement and brings their signatures together.
func readSigned(paths []string) (*recovery.Signed, error) {
	s := new(recovery.Signed)
	if err := readDocument(paths[0], s); err != nil {
		return nil, err
	}
	for _, path := range paths[1:] {
		o := new(recovery.Signed)
		if err := readDocument(path, o); err != nil {
			return nil, err
		}
		if err := s.Merge(o); err != nil {
			return nil, refusal{fmt.Errorf("%s and %s: %w", paths[0], path, err)}
		}
	}
	return s, nil
}
