//go:build !race

package rdma

const raceDetector = false
