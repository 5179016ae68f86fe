package chain

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	recoveries, blocks, txs, gas, reorgs, failedBlocks, recovers, flushes, receiptErrors prometheus.Counter
	head, final, replayLeft                                                              prometheus.Gauge
	execSeconds, rootSeconds                                                             prometheus.Counter
}

func newMetrics(reg prometheus.Registerer) (*metrics, error) {
	c := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: "bornode_chain_" + name, Help: help})
	}
	g := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: "bornode_chain_" + name, Help: help})
	}
	m := &metrics{
		recoveries:    c("sender_recoveries_total", "senders of blocks that had to be recovered from signatures: the node had not seen the transactions before"),
		blocks:        c("executed_blocks_total", "blocks executed"),
		txs:           c("executed_transactions_total", "transactions executed in blocks"),
		gas:           c("executed_gas_total", "gas used by executed blocks"),
		reorgs:        c("reorgs_total", "switches to another branch"),
		failedBlocks:  c("failed_blocks_total", "blocks found invalid by execution"),
		recovers:      c("state_rollbacks_total", "rollbacks of the state on disk"),
		flushes:       c("state_flushes_total", "times the state was found or brought on disk as the flush settings ask"),
		receiptErrors: c("receipt_write_errors_total", "receipts that could not be stored"),
		head:          g("head_height_blocks", "height of the executed head"),
		final:         g("final_height_blocks", "height of the last irreversible block"),
		replayLeft:    g("replay_left_blocks", "blocks that a node which was not stopped in order executes again before it takes part"),
		execSeconds:   c("execute_seconds_total", "time spent in the EVM"),
		rootSeconds:   c("state_root_seconds_total", "time spent on state roots and commits"),
	}
	if reg == nil {
		return m, nil
	}
	for _, x := range []prometheus.Collector{m.recoveries, m.blocks, m.txs, m.gas, m.reorgs, m.failedBlocks, m.recovers, m.flushes, m.receiptErrors, m.head, m.final, m.replayLeft, m.execSeconds, m.rootSeconds} {
		if err := reg.Register(x); err != nil {
			return nil, err
		}
	}
	return m, nil
}
