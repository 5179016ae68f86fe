package seal

const (
	// Overhead is by how many bytes a sealed section of records is longer than the plain one.
	Overhead = sectionHeader + 16
	// SessionBatches is how many batches one session encrypts before a new one begins.
	SessionBatches = 1 << 32
	// OpenSessions is how many sessions a ring keeps the derived keys of.
	OpenSessions = 4096
	// RingKeys is how many epochs' keys a ring holds.
	RingKeys = 65536
	// PublicBytes is the longest public key that is taken, SealedBytes the longest sealed key: what the contract keeps.
	PublicBytes = 2048
	SealedBytes = 2048
	// identityFileBytes is the longest file of an identity that is read.
	identityFileBytes = 16384
)
