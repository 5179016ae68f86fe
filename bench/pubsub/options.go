package pubsub

import (
	"errors"
	"fmt"
	"time"

	"github.com/bornode/bornode/pubsub/evidence"
)

const (
	brokers      = 3
	partitions   = 6
	logins       = 20              // of new clients of a variant in a round, one after another
	maxWaiting   = 20_000          // records that a producer has not had an answer for
	readyTime    = time.Minute     // for a new topic to be led
	drainTime    = 2 * time.Minute // for what was sent to be answered or fetched
	calmTime     = 10 * time.Second
	calmShare    = 0.25 // of a core, below which a network is done with a load
	calmLook     = 200 * time.Millisecond
	idleLook     = 2 * time.Second
	idleKept     = 20 * time.Second // for which a look at a network at rest counts
	stampBytes   = 8                // a record of the run at a fixed rate begins with its time
	delayBytes   = 1 << 10
	fetches      = 3  // of all that was produced, by a new client each, one after another: one is over in a moment
	warmRecords  = 50 // written and read, one by one, before delay is measured
	maxSeconds   = 600
	maxRounds    = 100
	maxTakeovers = 100
	maxBytes     = 1 << 20
	maxFixedRate = 100_000
)

// Options of a measurement.
type Options struct {
	Program   string // the bornode executable
	Rounds    int
	Seconds   int           // length of every load
	Sizes     []int         // bytes of a record
	Rates     []int         // records a second of the runs that measure delay
	Takeovers int           // leaders killed, one after another
	Library   bool          // loads through the client library too
	Quick     bool          // leaves out acks 1 of replicated topics, and the library with large records
	Within    time.Duration // no round begins that would end later; 0: all rounds. The first always runs
	Profile   string        // folder for profiles of the first broker; empty: none
	Progress  func(string)
}

// Validate names the first option that cannot work.
func (o *Options) Validate() error {
	switch {
	case o.Rounds < 1 || o.Rounds > maxRounds:
		return fmt.Errorf("%d rounds; use 1 to %d", o.Rounds, maxRounds)
	case o.Seconds < 1 || o.Seconds > maxSeconds:
		return fmt.Errorf("loads of %d s; use 1 to %d", o.Seconds, maxSeconds)
	case o.Within < 0:
		return errors.New("the time for all rounds is negative")
	case len(o.Rates) == 0:
		return errors.New("no rate is given for the runs that measure delay")
	case o.Takeovers < 0 || o.Takeovers > maxTakeovers:
		return fmt.Errorf("%d take-overs; use 0 to %d", o.Takeovers, maxTakeovers)
	case len(o.Sizes) == 0:
		return errors.New("no record size is given")
	}
	for _, n := range o.Sizes {
		if n < stampBytes || n > maxBytes {
			return fmt.Errorf("records of %d bytes; use %d to %d", n, stampBytes, maxBytes)
		}
	}
	for _, n := range o.Rates {
		if n < 1 || n > maxFixedRate {
			return fmt.Errorf("%d records a second; use 1 to %d", n, maxFixedRate)
		}
	}
	return nil
}

// kafka are the loads through a plain client.
func (o *Options) kafka() []through {
	if o.Quick {
		return []through{aloneLoad, allLoad}
	}
	return []through{aloneLoad, leaderLoad, allLoad}
}

// library are the loads through the client library with records of a size.
func (o *Options) library(size int) []through {
	if !o.Library || o.Quick && size > 1<<10 {
		return nil
	}
	return libraryLoads
}

// variant is a way to set up the network.
type variant struct {
	name     string
	settings []string
	evidence bool
}

// The first is what is usual, the second what it is compared with.
var variants = []variant{
	{"evidence, tcp", []string{"rdma.mode=off"}, true},
	{"off, tcp", []string{"rdma.mode=off", "pubsub.evidence.off=" + evidence.OffForMeasuring}, false},
	{"evidence, shm", []string{"rdma.mode=auto"}, true},
}

const (
	usual   = 0 // of variants
	unlike  = 1
	overShm = 2
)

// through is how records get to brokers and back.
type through struct {
	client, acks string
	replicas     int16
}

// on says whether a load is given to a variant: what links brokers is nothing to a topic that one broker has alone.
func (t through) on(i int) bool { return t.replicas > 1 || i == usual || i == unlike }

// The library's loads are only for networks with evidence: it waits for checkpoints.
var (
	aloneLoad    = through{"kafka", "1", 1}
	leaderLoad   = through{"kafka", "1", brokers}
	allLoad      = through{"kafka", "all", brokers}
	libraryLoads = []through{{clientTrusting, "all", brokers}, {clientLibrary, "all", brokers}, {clientEncrypted, "all", brokers}}
)

const (
	clientTrusting  = "library, trusting"
	clientLibrary   = "library"
	clientEncrypted = "library, encrypted"
)

// sums are the figures of all rounds by what they tell of, in the order of the rounds.
type sums map[key][]float64

type key struct {
	variant string
	by      through
	size    int // bytes of a record; of delays records a second
	what    string
}

const (
	whatProduce       = "produce"
	whatProduceCPU    = "produce cpu"
	whatFetch         = "fetch"
	whatFetchCPU      = "fetch cpu"
	whatProduceClient = "produce client"
	whatFetchClient   = "fetch client"
	whatMedian        = "p50"
	whatTail          = "p99"
	whatRateCPU       = "cpu at a rate"
	whatLogin         = "login"
	whatTakeover      = "takeover"
)
