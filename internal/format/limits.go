package format

const (
	maxFileBytes  = 4 << 10 // of a FORMAT file
	maxShownBytes = 60      // of one of its words in an error
)
