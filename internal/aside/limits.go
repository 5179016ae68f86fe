package aside

const (
	maxSameSecond = 100 // names of one file that one second may make
	compareBytes  = 64 << 10
)
