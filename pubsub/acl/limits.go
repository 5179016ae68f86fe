package acl

const (
	// MaxName is the longest name of a resource in an entry, in bytes. Topics end at 249.
	MaxName = 255
	// MaxEntries is how many entries one Set holds; what is beyond is dropped and counted.
	MaxEntries = 100_000
)
