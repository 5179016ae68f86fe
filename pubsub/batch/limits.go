package batch

const (
	// HeaderBytes is the length of a batch without its records.
	HeaderBytes = 61
	// MaxBytes is the largest batch that is taken.
	MaxBytes = 8 << 20
	// MaxRecords is the largest count of records in a batch.
	MaxRecords = 1 << 20
)
