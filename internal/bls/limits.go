package bls

const (
	// KeyLength is the length of a compressed public key in G1.
	KeyLength = 48
	// SignatureLength is the length of a compressed signature in G2.
	SignatureLength = 96
	// SecretLength is the length of a secret key, big endian.
	SecretLength = 32
	// MaxAggregate bounds the signatures or keys of one aggregate.
	MaxAggregate = 4096
	// coefficientBytes is the length of the random coefficients of verifyEach.
	coefficientBytes = 8
	// DefaultCacheKeys is a cache size that holds two full schedules and the standbys.
	DefaultCacheKeys = 1024
)
