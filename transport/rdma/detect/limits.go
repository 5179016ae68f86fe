package detect

import "time"

// Bounds on what a peer can make an upgrader hold or do.
const (
	// maxBodyBytes is the longest body of a message.
	maxBodyBytes = 4096
	// maxOffers is how many endpoints a node offers.
	maxOffers = 8
	// maxRendezvousBytes is the longest rendezvous of a host.
	maxRendezvousBytes = 64
	// maxNameBytes is the longest name of an endpoint, maxReasonBytes the longest reason; longer ones are cut.
	maxNameBytes   = 64
	maxReasonBytes = 200
	// maxLocalBytes is the longest Local of a channel.
	maxLocalBytes = 1024

	// A peer may send burstMessages at once and refillMessages more in each Config.RetryMin: many times what a peer
	// with the same settings ever does.
	burstMessages  = 256
	refillMessages = 64
	// keepaliveRefill is how often a keep-alive more is allowed, whatever the peer's settings.
	keepaliveRefill = 5 * time.Millisecond
	// queuedMessages is what is decoded ahead of the loop that handles it.
	queuedMessages = 8
	// proposalPause is the part of Config.RetryMin that must lie between two proposals of a peer that cost a channel.
	proposalPause = 4

	// keepalives is how many keep-alives a peer sends within the idle time-out.
	keepalives = 4

	// maxRemembered bounds the peers whose last reason is remembered, so that it is logged once.
	maxRemembered = 1024

	maxRetry = time.Hour
)
