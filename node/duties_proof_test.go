package node

import (
	"bytes"
	"crypto/rand"
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/core/types"
	"github.com/stretchr/testify/require"

	"github.com/bornode/bornode/block"
	"github.com/bornode/bornode/consensus/dpos"
	"github.com/bornode/bornode/consensus/signer"
	"github.com/bornode/bornode/contracts"
	"github.com/bornode/bornode/internal/bls"
)

// twins is evidence of two seals whose blocks the chain knows.
func twins(t *testing.T, guilty common.Address, slot uint64) (dpos.Evidence, func(common.Hash) (*block.SealedHeader, error)) {
	t.Helper()
	known := make(map[common.Hash]*block.SealedHeader)
	e := dpos.Evidence{Kind: dpos.DoubleSeal, Guilty: guilty, Slot: slot}
	for i := range 2 {
		r := &block.Record{Version: block.RecordVersion, Slot: slot}
		h := &block.SealedHeader{Header: &types.Header{Number: big.NewInt(9), Difficulty: new(big.Int), GasUsed: uint64(i), Extra: r.Hash().Bytes()}, Record: r}
		known[h.Hash()] = h
		e.Headers[i].Hash = h.Hash()
	}
	return e, func(h common.Hash) (*block.SealedHeader, error) { return known[h], nil }
}

// The contract is shown the key that consensus verified the votes under: the guilty may have registered another since.
func TestEvidenceShowsTheKeyOfTheVotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guilty, err := signer.Generate(rand.Reader)
		require.NoError(t, err)
		s := newStage(t, nil)
		e := dpos.Evidence{Kind: dpos.DoubleVote, Guilty: guilty.Account(), Slot: 9, Key: guilty.VoteKey()}
		for i := range e.Votes {
			l := block.Link{Kind: block.Prevote, Source: block.Point{Slot: 1}, Target: block.Point{Slot: 9, Hash: common.Hash{byte(i + 1)}}}
			sig, err := guilty.SignVote(block.Domain{Genesis: common.Hash{7}}.VoteDigest(l))
			require.NoError(t, err)
			e.Votes[i] = block.Vote{Link: l, Voter: guilty.Account(), Signature: sig}
		}
		s.d.accuse(e, nil)
		synctest.Wait()
		require.Len(t, s.d.docket.proofs, 1)
		key, err := bls.UncompressG1(guilty.VoteKey())
		require.NoError(t, err)
		require.True(t, bytes.Contains(s.d.docket.proofs[0].Calls[0], key))
	})
}

func TestEvidenceIsSubmittedByRank(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		guilty := common.Address{2}
		s := newStage(t, func(s *stage, d *dutyDeps) {
			s.seats[3].Account = d.self
			me := fit()
			me.Seated = 1
			s.people[d.self] = me
			s.people[guilty] = fit()
		})
		s.to(5)
		e, sealed := twins(t, guilty, 4*7+2) // the third seat goes first, this one second
		s.d.accuse(e, sealed)
		synctest.Wait()
		s.to(5 + rankBlocks - 1)
		require.Empty(t, s.sent, "it is another's turn")
		s.block()
		require.Len(t, s.sent, 1)
		s.blocksN(3)
		require.Len(t, s.sent, 1, "one is on its way")
		s.include = func(*types.Transaction) {
			c := s.people[guilty]
			c.Guilty = true
			s.people[guilty] = c
		}
		s.blocksN(4)
		require.Len(t, s.d.docket.proofs, 1, "kept until the verdict is final")
		require.FileExists(t, s.d.file)
		s.final = s.height + 1
		s.block()
		require.Empty(t, s.d.docket.proofs)
		require.NoFileExists(t, s.d.file)
		require.Len(t, s.sent, 1)
		s.d.accuse(e, sealed)
		synctest.Wait()
		s.final = 1 << 40
		s.blocksN(20)
		require.Len(t, s.sent, 1, "who was slashed before is left alone")
	})
}

func TestEvidenceThatFails(t *testing.T) {
	guilty := common.Address{2}
	start := func(t *testing.T, change func(*stage, *dutyDeps)) *stage {
		s := newStage(t, func(s *stage, d *dutyDeps) {
			s.seats[0].Account = d.self
			me := fit()
			me.Seated = 1
			s.people[d.self], s.people[guilty] = me, fit()
			if change != nil {
				change(s, d)
			}
		})
		e, sealed := twins(t, guilty, 8)
		s.d.accuse(e, sealed)
		synctest.Wait()
		return s
	}
	t.Run("refused before it is sent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *stage, _ *dutyDeps) {
				s.refuse = func([]byte) string { return "Producers: the evidence is too old" }
			})
			s.blocksN(3)
			require.Empty(t, s.sent)
			require.Empty(t, s.d.docket.proofs)
			require.Equal(t, 1, s.logs.FilterMessage("evidence is given up").Len())
		})
	})
	t.Run("refused in a block", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			s.include = func(tx *types.Transaction) {
				s.blocks[tx.Hash()] = false
				s.refuse = func([]byte) string { return "Producers: the evidence is too old" }
			}
			s.blocksN(5)
			require.Len(t, s.sent, 1)
			require.Empty(t, s.d.docket.proofs)
		})
	})
	t.Run("refused in a block by the state of that block", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			s.include = func(tx *types.Transaction) {
				if s.blocks[tx.Hash()] = len(s.sent) == 2; s.blocks[tx.Hash()] {
					c := s.people[guilty]
					c.Guilty = true
					s.people[guilty] = c
				}
			}
			s.blocksN(5)
			require.Len(t, s.sent, 2, "it is good on the state at hand")
			require.True(t, s.people[guilty].Guilty)
			require.Zero(t, s.logs.FilterMessage("evidence is given up").Len())
		})
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			s.include = func(tx *types.Transaction) { s.blocks[tx.Hash()] = false }
			s.blocksN(3 * maxProofTries)
			require.Len(t, s.sent, maxProofTries)
			require.Empty(t, s.d.docket.proofs)
		})
	})
	t.Run("in a block above the state at hand", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			s.include = func(*types.Transaction) {} // it shows later
			s.blocksN(3)
			require.Len(t, s.sent, 1)
			require.Len(t, s.d.docket.proofs, 1)
		})
	})
	t.Run("always lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *stage, _ *dutyDeps) { s.lossy = true })
			s.blocksN(3 * maxProofTries)
			require.Len(t, s.sent, maxProofTries)
			require.Empty(t, s.d.docket.proofs)
		})
	})
	t.Run("kept over a restart", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, func(s *stage, _ *dutyDeps) { s.poolErr = errors.New("no") })
			s.blocksN(3)
			require.Empty(t, s.sent)
			again := newStage(t, func(n *stage, d *dutyDeps) {
				n.seats, n.people = s.seats, s.people
				n.seats[0].Account, n.people[d.self] = d.self, s.people[s.d.self]
				d.file = s.d.file
			})
			require.Len(t, again.d.docket.proofs, 1)
			again.block()
			require.Len(t, again.sent, 1)
			require.NoError(t, os.WriteFile(s.d.file, []byte("broken"), 0o600))
			broken := newStage(t, func(_ *stage, d *dutyDeps) { d.file = s.d.file })
			require.Empty(t, broken.d.docket.proofs)
			require.Equal(t, 1, broken.logs.FilterMessageSnippet("set aside").Len())
			require.NoError(t, os.WriteFile(s.d.file, []byte("broken again"), 0o600))
			newStage(t, func(_ *stage, d *dutyDeps) { d.file = s.d.file })
			copies, err := filepath.Glob(s.d.file + ".damaged-*")
			require.NoError(t, err)
			require.Len(t, copies, 2)
			b, err := os.ReadFile(copies[0])
			require.NoError(t, err)
			require.Equal(t, "broken", string(b))

			require.NoError(t, os.Remove(s.d.file)) // what the disk does not give: a folder of its name
			require.NoError(t, os.Mkdir(s.d.file, 0o700))
			newStage(t, func(_ *stage, d *dutyDeps) { d.file = s.d.file })
			copies, err = filepath.Glob(s.d.file + ".damaged-*")
			require.NoError(t, err)
			require.Len(t, copies, 3)
			require.NoFileExists(t, s.d.file)
		})
	})
	t.Run("found at the end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			s.stop()
			for i := range byte(2 * maxFaults) {
				e, sealed := twins(t, common.Address{100 + i}, 8)
				s.d.accuse(e, sealed)
			}
			require.Equal(t, maxFaults, s.logs.FilterMessageSnippet("too much waits").Len(), "no silence about the others")
			s.d.finish()
			b, err := os.ReadFile(s.d.file)
			require.NoError(t, err)
			saved, err := decodeDocket(b, 0)
			require.NoError(t, err)
			require.Len(t, saved.proofs, 1+maxFaults)
		})
	})
	t.Run("its own", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := start(t, nil)
			e, sealed := twins(t, s.d.self, 8)
			s.d.accuse(e, sealed)
			e, _ = twins(t, common.Address{3}, 8)
			s.d.accuse(e, func(common.Hash) (*block.SealedHeader, error) { return nil, nil })
			synctest.Wait()
			require.Len(t, s.d.docket.proofs, 1)
			require.Equal(t, 1, s.logs.FilterMessage("evidence is not submitted").Len())
		})
	})
}

// A proof of many transactions goes one by one; parts that others proved are left out.
func TestEvidenceInParts(t *testing.T) {
	guilty := common.Address{2}
	for _, proven := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, func(s *stage, d *dutyDeps) {
				s.seats[0].Account = d.self
				me := fit()
				me.Seated = 1
				s.people[d.self], s.people[guilty] = me, fit()
			})
			done := 0
			s.refuse = func(data []byte) string {
				if data[0] == 3 && done < 2 && !proven {
					return "Producers: the headers do not lead down from D"
				}
				return ""
			}
			s.include = func(tx *types.Transaction) {
				if done++; tx.Data()[0] == 3 {
					c := s.people[guilty]
					c.Guilty = true
					s.people[guilty] = c
				}
			}
			require.True(t, s.d.docket.add(&proof{Kind: uint8(dpos.CrossVote), Guilty: guilty, Slot: 8, Calls: [][]byte{{1}, {2}, {3}}}))
			s.block()
			if proven {
				require.Equal(t, 1, s.tries, "its gas is known from trying whether others proved the path")
			} else {
				require.Equal(t, 2, s.tries)
			}
			s.blocksN(11)
			var order []byte
			for _, tx := range s.sent {
				order = append(order, tx.Data()[0])
			}
			if proven {
				require.Equal(t, []byte{3}, order)
			} else {
				require.Equal(t, []byte{1, 2, 3}, order)
			}
		})
	}
}

// Whoever makes the contract remember another path, or a branch that loses with ours on it, only delays a proof in parts.
func TestEvidenceInPartsBeginsAgain(t *testing.T) {
	guilty := common.Address{2}
	for _, forever := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := newStage(t, func(s *stage, d *dutyDeps) { s.elects, s.seats[0].Account = false, d.self })
			proven, spoilt := 0, false
			s.refuse = func(data []byte) string {
				if data[0] == 3 && proven < 2 {
					return "Producers: the headers do not lead down from D"
				}
				return ""
			}
			s.include = func(tx *types.Transaction) {
				proven++
				if proven == 2 && (forever || !spoilt) {
					proven, spoilt = 0, true
				}
				if tx.Data()[0] == 3 {
					s.people[guilty] = contracts.Candidate{Guilty: true, Votes: new(big.Int)}
				}
			}
			require.True(t, s.d.docket.add(&proof{Kind: uint8(dpos.CrossVote), Guilty: guilty, Slot: 8, Calls: [][]byte{{1}, {2}, {3}}}))
			s.blocksN(2 * maxProofTries * (retryBlocks + 3))
			require.Equal(t, !forever, s.people[guilty].Guilty)
			if forever {
				require.Len(t, s.sent, 2*maxProofTries)
				require.Equal(t, 1, s.logs.FilterMessage("evidence is given up").Len())
			} else {
				require.Len(t, s.sent, 5)
			}
		})
	}
}
