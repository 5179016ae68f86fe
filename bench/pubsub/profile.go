package pubsub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// profile takes profiles of the first broker while a load runs, in the first round: processor and allocations. What it
// gives waits for them.
func (r *run) profile(ctx context.Context, by through, size int, what string) func() error {
	if r.o.Profile == "" || r.round > 0 {
		return func() error { return nil }
	}
	name := strings.NewReplacer(", ", "-", " ", "-").Replace(fmt.Sprintf("%s-%s-x%d-acks-%s-%d-%s", r.variant.name, by.client, by.replicas, by.acks, size, what))
	var wg sync.WaitGroup
	var errs [2]error
	for i, kind := range []string{"profile", "allocs"} {
		url := fmt.Sprintf("http://%s/debug/pprof/%s?seconds=%d", r.n.Nodes[0].Metrics, kind, r.o.Seconds)
		wg.Go(func() { errs[i] = download(ctx, url, filepath.Join(r.o.Profile, name+"."+kind)) })
	}
	return func() error {
		wg.Wait()
		return errors.Join(errs[:]...)
	}
}

func download(ctx context.Context, url, file string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", url, resp.Status)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, resp.Body)
	return errors.Join(err, f.Close())
}
