package token

import "time"

// Bounds on tokens and certificates.
const (
	MaxLife   = 24 * time.Hour   // from Issued to Expires; the contract has the same bound
	ClockSkew = 60 * time.Second // how far the clocks of a client and a broker may differ
	MaxText   = 512              // characters of the text form, certificate included
)
