package recovery

import "github.com/bornode/bornode/block"

// Bounds of what a recovery and a report may say. A value above its bound is refused while decoding.
const (
	MaxSeats       = block.MaxProducers     // of the new schedule
	MaxLost        = 2 * block.MaxProducers // producers held lost: of both schedules while two count
	MaxReasonBytes = 1024
	MaxKeys        = 256       // recovery keys of a network
	MaxSignatures  = MaxKeys   // of one statement
	MaxSignedBytes = 128 << 10 // encoded statement with its signatures
	MaxReportBytes = 64 << 10  // encoded report: two certificates and two full schedules fit easily
	MaxReports     = 256       // that a base is chosen from
	MaxFileBytes   = 512 << 10 // JSON form of either
	maxSchedules   = 2         // that count for one block
)
