package batch

const (
	// HeaderBytes is the length of a batch without its records.
	HeaderBytes = 61
	// MaxBytes is the largest batch that is taken.
	MaxBytes = 8 << 20
	// MaxRecords is the largest count of records in a batch.
	MaxRecords = 1 << 20
)

const (
	// MaxUnpackedBytes bounds the records of a batch when they are unpacked: what a consumer must be able to hold.
	MaxUnpackedBytes = 64 << 20
	// MaxRatio bounds how much larger than the batch its records may be above MaxBytes, which they always may have.
	MaxRatio = 256
	// maxWindowBytes bounds the window of zstd, which a frame announces and readers allocate.
	maxWindowBytes = 8 << 20
	// unpackBufferBytes is how much is unpacked at a time.
	unpackBufferBytes = 32 << 10
)
