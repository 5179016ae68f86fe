// Package faultmount mounts a faultfs.Disk, so that a whole program, with every library in it that opens files by itself,
// runs on a disk that fails by plan and of which a power cut keeps only what was synced. For tests; it needs /dev/fuse and
// the right to mount.
//
// Modes, owners and times are not kept: files have mode 0600, directories 0700. Sockets live beside the disk.
package faultmount
