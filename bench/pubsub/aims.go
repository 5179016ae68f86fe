package pubsub

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/bornode/bornode/bench/figures"
)

const (
	hashBytes   = 64 << 10 // about a batch of a busy producer
	hashTime    = 20 * time.Millisecond
	leastHashes = 5
	aimSmall    = 1 << 10
	aimLarge    = 16 << 10
	aimRate     = 20_000
)

// Aim is a figure beside what the project wants it to be.
type Aim struct {
	What string         `json:"what"`
	Aim  string         `json:"aim"`
	Got  figures.Spread `json:"measured"`
}

// hashSpeed is how fast one core makes the digests of leaves, in MB/s.
func hashSpeed(rounds int) figures.Spread {
	data, speeds := make([]byte, hashBytes), make([]float64, rounds)
	for i := range speeds {
		begun, n := time.Now(), 0
		for ; time.Since(begun) < hashTime; n += len(data) {
			sha256.Sum256(data)
		}
		speeds[i] = float64(n) / 1e6 / time.Since(begun).Seconds()
	}
	return figures.Of(speeds)
}

// aims are the figures that were measured of those that the project has set itself aims for.
func aims(r *Report) (out []Aim) {
	add := func(what, aim string, got figures.Spread) {
		if got.Measured() {
			out = append(out, Aim{what, aim, got})
		}
	}
	for _, x := range r.Costs {
		at := fmt.Sprintf(", %d bytes, %d replicas, acks %s, %%", x.Size, x.Replicas, x.Acks)
		switch x.What {
		case costEvidence:
			add("evidence, more CPU per record produced"+at, "<= 0.6", x.Produce)
			add("  of that SHA-256 alone, at its speed here"+at, "-", r.hashing(x))
			add("evidence, more CPU per record fetched"+at, "<= 4.5", x.Fetch)
		case costEncryption:
			add("encryption, more CPU per record produced"+at, "<= 10", x.Produce)
			add("encryption, more CPU per record fetched"+at, "<= 10", x.Fetch)
		}
	}
	for _, x := range r.Delays {
		switch x.Variant {
		case variants[usual].name:
			for _, y := range r.Delays {
				if y.Variant == variants[unlike].name && y.Rate == x.Rate {
					add(fmt.Sprintf("evidence, p99 at %d records/s less p99 without, ms", x.Rate), "<= 1", apart(x.P99, y.P99))
				}
			}
			if x.Rate == aimRate {
				add(fmt.Sprintf("p99 at %d records/s, ms", x.Rate), "< 25", x.P99)
			}
		}
	}
	for _, x := range r.Loads {
		rate := times(x.Produce, float64(x.Size)/1e6)
		switch {
		case x.Client != "kafka":
		case x.Replicas == 1 && x.Size == aimSmall && x.Variant == variants[usual].name:
			add("1 KiB, 1 replica, acks 1, MB/s", ">= 300", rate)
		case x.Replicas == brokers && x.Acks == "all" && x.Variant == variants[overShm].name && x.Size == aimSmall:
			add("1 KiB, 3 replicas over shm, acks all, MB/s", ">= 134", rate)
		case x.Replicas == brokers && x.Acks == "all" && x.Variant == variants[overShm].name && x.Size == aimLarge:
			add("16 KiB, 3 replicas over shm, acks all, MB/s", ">= 234", rate)
		}
	}
	return out
}

// hashing is what one SHA-256 of every byte on every replica is of the processor time without evidence, in per cent: what
// evidence cannot cost less than. Headers of batches and records are left out.
func (r *Report) hashing(c Cost) figures.Spread {
	for _, x := range r.Loads {
		if x.Variant == variants[unlike].name && x.Client == "kafka" && x.Size == c.Size && x.Replicas == c.Replicas && x.Acks == c.Acks &&
			x.ProduceCPU.Min > 0 && r.Hash.Min > 0 {
			of := func(speed, cpu float64) float64 { return 100 * float64(c.Size) * float64(c.Replicas) / speed / cpu }
			return figures.Spread{Median: of(r.Hash.Median, x.ProduceCPU.Median), Min: of(r.Hash.Max, x.ProduceCPU.Max), Max: of(r.Hash.Min, x.ProduceCPU.Min)}
		}
	}
	return figures.Spread{}
}

// apart is a less b: medians, and how far it may be from one round to another.
func apart(a, b figures.Spread) figures.Spread {
	if !a.Measured() || !b.Measured() {
		return figures.Spread{}
	}
	return figures.Spread{Median: a.Median - b.Median, Min: a.Min - b.Max, Max: a.Max - b.Min}
}

func times(s figures.Spread, by float64) figures.Spread {
	return figures.Spread{Median: s.Median * by, Min: s.Min * by, Max: s.Max * by}
}
