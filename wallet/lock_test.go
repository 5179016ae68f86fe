package wallet

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// keyMemory is where an unlocked key lies.
func keyMemory(t *testing.T, s *Service, name string) []byte {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.wallets[name]
	require.Len(t, w.slots, 1)
	for _, slot := range w.slots {
		return s.vault.at(slot)
	}
	return nil
}

func TestKeysAreOverwritten(t *testing.T) {
	for _, how := range []struct {
		name string
		lock func(t *testing.T, s *Service)
	}{
		{"lock", func(t *testing.T, s *Service) { require.NoError(t, s.Lock("main")) }},
		{"lockAll", func(_ *testing.T, s *Service) { s.LockAll() }},
		{"delete", func(t *testing.T, s *Service) { require.NoError(t, s.Delete(t.Context(), "main", testPassword)) }},
		{"time-out", func(_ *testing.T, _ *Service) { time.Sleep(601 * time.Second); synctest.Wait() }},
	} {
		t.Run(how.name, func(t *testing.T) {
			c := testConfig(t)
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(c, nil, nil)
				require.NoError(t, err)
				s.n, s.p = 2, 1
				defer s.Close()
				a := account(t, s)
				mem := keyMemory(t, s, "main")
				require.NotEqual(t, make([]byte, keySize), mem)
				how.lock(t, s)
				require.Equal(t, make([]byte, keySize), mem)
				_, err = s.SignMessage(t.Context(), a, []byte("x"))
				require.Error(t, err)
			})
		})
	}
}

// At exit everything is overwritten before the pages are given back. The test puts memory in their place that stays.
func TestCloseOverwritesTheVault(t *testing.T) {
	s := openService(t, testConfig(t))
	account(t, s)
	pages := s.vault.mem
	t.Cleanup(func() { require.NoError(t, unix.Munmap(pages)) })
	kept := append([]byte(nil), pages...)
	s.vault.mem = kept
	require.NotEqual(t, make([]byte, len(kept)), kept)
	s.Close()
	require.Equal(t, make([]byte, len(kept)), kept)
}

func TestUnlockTimes(t *testing.T) {
	c := testConfig(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(c, nil, nil)
		require.NoError(t, err)
		s.n, s.p = 2, 1
		defer s.Close()
		a := account(t, s)
		locked := func() bool { return s.List()[0].Locked }
		time.Sleep(599 * time.Second)
		require.False(t, locked())
		require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 60)) // a new time replaces the old one
		time.Sleep(59 * time.Second)
		require.False(t, locked())
		time.Sleep(2 * time.Second)
		require.True(t, locked())

		require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 0))
		require.Nil(t, s.List()[0].Until)
		time.Sleep(100 * 24 * time.Hour)
		require.False(t, locked(), "0 seconds is until it is locked")
		_, err = s.SignMessage(t.Context(), a, []byte("x"))
		require.NoError(t, err)

		requireCode(t, CodeInvalid, s.Unlock(t.Context(), "main", testPassword, 24*3600+1), "at most 86400 seconds")
		b, err := s.NewAccount(t.Context(), "main", testPassword)
		require.NoError(t, err)
		_, err = s.SignMessage(t.Context(), b, []byte("x"))
		require.NoError(t, err, "an account made while the wallet is unlocked is unlocked")
	})
}

// The clock of the wall counts, too: a host that slept finds its wallets locked even before the timer fires.
func TestExpiryByTheWallClock(t *testing.T) {
	s := openService(t, testConfig(t))
	a := account(t, s)
	s.mu.Lock()
	s.wallets["main"].until = time.Now().Add(-time.Second)
	s.mu.Unlock()
	_, err := s.SignMessage(t.Context(), a, []byte("x"))
	requireCode(t, CodeLocked, err, "borcli wallet unlock main")
}

func TestThrottle(t *testing.T) {
	c := testConfig(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(c, nil, nil)
		require.NoError(t, err)
		s.n, s.p = 2, 1
		defer s.Close()
		ctx := t.Context()
		require.NoError(t, s.Create(ctx, "main", testPassword))
		require.NoError(t, s.Create(ctx, "other", testPassword))
		unlock := func(password string) error { return s.Unlock(ctx, "main", password, 60) }

		requireCode(t, CodeUnknown, s.Unlock(ctx, "none", "guess", 60), `no wallet "none"`)
		for _, delay := range []time.Duration{1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300} {
			requireCode(t, CodeWrongPassword, unlock("guess"), (delay * time.Second).String())
			requireCode(t, CodeTooMany, unlock(testPassword), "try again in "+(delay*time.Second).String()) // not even the right one
			time.Sleep(delay*time.Second - 1)
			requireCode(t, CodeTooMany, unlock(testPassword))
			require.NoError(t, s.Unlock(ctx, "other", testPassword, 60), "each wallet by itself")
			time.Sleep(time.Nanosecond)
		}
		require.NoError(t, unlock(testPassword))
		requireCode(t, CodeWrongPassword, unlock("guess"), "1s") // a right one forgives
		time.Sleep(time.Second)
		// Every operation with a password counts.
		_, err = s.NewAccount(ctx, "main", "guess")
		requireCode(t, CodeWrongPassword, err, "2s")
		_, err = s.Export(ctx, "main", testPassword, junkFirst, FormKey)
		requireCode(t, CodeTooMany, err)
	})
}

// Guesses that wait together are one guess: those behind the first find the delay, whatever connection they came over.
func TestThrottleOverQueue(t *testing.T) {
	c := testConfig(t)
	synctest.Test(t, func(t *testing.T) {
		s, err := Open(c, nil, nil)
		require.NoError(t, err)
		s.n, s.p = 2, 1
		defer s.Close()
		require.NoError(t, s.Create(t.Context(), "main", testPassword))
		require.NoError(t, s.gate.enter(t.Context()))
		errs := make(chan error, MaxHashQueue)
		for range MaxHashQueue {
			go func() { errs <- s.Unlock(t.Context(), "main", "guess", 60) }()
		}
		synctest.Wait() // all of them wait
		s.gate.leave()
		codes := make(map[int]int)
		for range MaxHashQueue {
			codes[(<-errs).(*Error).Code]++
		}
		require.Equal(t, map[int]int{CodeWrongPassword: 1, CodeTooMany: MaxHashQueue - 1}, codes)
	})
}

// Who has gone, and a daemon that stops, wait for no more keys to be opened.
func TestLongOperationsEnd(t *testing.T) {
	s := openService(t, testConfig(t))
	account(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := s.openKeys(ctx, s.wallets["main"], testPassword, true)
	require.ErrorIs(t, err, context.Canceled)
	before := s.List()[0].Accounts
	require.Error(t, s.build(ctx, s.wallets["main"], "a new password", nil))
	require.NoError(t, s.Unlock(t.Context(), "main", testPassword, 60), "nothing has changed")
	require.Equal(t, before, s.List()[0].Accounts)
	w := s.wallets["main"]
	s.Close()
	_, err = s.openKeys(t.Context(), w, testPassword, true)
	require.ErrorContains(t, err, "is stopping")
	requireCode(t, CodeInternal, s.Unlock(t.Context(), "main", testPassword, 60), "is stopping")
	requireCode(t, CodeInternal, s.Create(t.Context(), "more", testPassword), "is stopping")
	_, err = s.SignMessage(t.Context(), before[0], []byte("x"))
	requireCode(t, CodeLocked, err)
}

func TestHashQueueIsBounded(t *testing.T) {
	s := openService(t, testConfig(t))
	require.NoError(t, s.Create(t.Context(), "main", testPassword))
	require.NoError(t, s.gate.enter(t.Context()))
	errs := make(chan error, MaxHashQueue+1)
	for range MaxHashQueue + 1 {
		go func() { errs <- s.Unlock(t.Context(), "main", testPassword, 60) }()
	}
	requireCode(t, CodeTooMany, <-errs, "try again in 5s") // only the one too many answers
	s.gate.leave()
	for range MaxHashQueue {
		require.NoError(t, <-errs)
	}
}
