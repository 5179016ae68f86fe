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
)
