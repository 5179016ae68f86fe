package block

// Bounds on what peers may send. A value above its bound is refused while decoding.
const (
	MaxProducers    = 128 // seats of a schedule
	MaxBitmapBytes  = MaxProducers / 8
	maxBitmaps      = 2        // of a certificate: the schedules that count
	MaxTransactions = 1 << 17  // per block
	MinBlockBytes   = 64 << 10 // the chain's own parameter is not below
	MaxBlockBytes   = 32 << 20 // encoded block, absolute; the chain's own parameter is not above
	MinGasLimit     = 5_000_000
	MaxGasLimit     = 1 << 40
	MaxHeaderBytes  = 64 << 10 // encoded sealed header: two certificates and a full schedule fit easily
	MaxVoteBytes    = 512      // encoded vote

	MaxToldVotes          = 128       // of a session answer: the newest of each kind, half and half
	MaxToldSessions       = 4         // of a session answer
	MaxSessionAnswerBytes = 256 << 10 // encoded session answer: its votes, half of them with a certificate, a header and two certificates
)
