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
	// FreeUnpackedBytes is what the records of every batch may unpack to, however small it is.
	FreeUnpackedBytes = 1 << 20
	// MaxRatio bounds how many times the packed size the records may have above FreeUnpackedBytes.
	MaxRatio = 256
	// MaxHeaders is the largest count of headers of a record: each costs two bytes at least, but as much work as a field.
	MaxHeaders = 1 << 12
	// maxWindowBytes bounds the window of zstd, which a frame announces and readers allocate, of unknown producers' frames
	// too. Levels up to 19 announce at most so much.
	maxWindowBytes = 8 << 20
	// unpackBufferBytes is how much is unpacked at a time.
	unpackBufferBytes = 32 << 10
)
