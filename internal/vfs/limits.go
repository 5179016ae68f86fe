package vfs

const (
	overlayPage     = 4 << 10 // unit of what an overlay keeps in memory
	maxOverlayBytes = 1 << 30 // all that an overlay keeps in memory
)
