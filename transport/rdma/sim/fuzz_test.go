package sim_test

import (
	"errors"
	"testing"

	"github.com/bornode/bornode/transport/rdma/fabric"
	"github.com/bornode/bornode/transport/rdma/sim"
)

// FuzzInfo: what is no Info is an error of the peer, never a panic.
func FuzzInfo(f *testing.F) {
	n := sim.NewNetwork(1, sim.Faults{Manual: true})
	d := n.NewDevice("a")
	cq, err := d.NewCQ(8)
	if err != nil {
		f.Fatal(err)
	}
	srq, err := d.NewSRQ(8)
	if err != nil {
		f.Fatal(err)
	}
	make := func() fabric.QP {
		qp, err := d.NewQP(fabric.QPConfig{CQ: cq, SRQ: srq, SendDepth: 1})
		if err != nil {
			f.Fatal(err)
		}
		return qp
	}
	good := make().Info()
	f.Add(good)
	f.Add(good[:7])
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, info []byte) {
		qp := make()
		err := qp.Connect(t.Context(), info, true)
		if string(info) == string(good) {
			if err != nil {
				t.Fatal(err)
			}
		} else if !errors.Is(err, fabric.ErrPeer) {
			t.Fatalf("%x: %v", info, err)
		}
		if err := qp.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// FuzzWalk walks with any seed: see TestWalk.
func FuzzWalk(f *testing.F) {
	f.Add(uint64(1), uint16(100))
	f.Fuzz(func(t *testing.T, seed uint64, steps uint16) {
		newWalker(t, seed, walkFaults(seed)).walk(int(steps % 2000))
	})
}
