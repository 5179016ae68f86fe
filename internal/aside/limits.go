package aside

const (
	maxSameSecond = 64 // copies of one name that one second may make
	compareBytes  = 64 << 10
)
