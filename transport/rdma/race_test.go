//go:build race

package rdma

// raceDetector: memory that a peer changes while it is read is a race by its nature; only shared memory hides it from
// the detector.
const raceDetector = true
