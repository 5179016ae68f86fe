// Package faultfs is an in-memory file system for tests of stores that forgets at a crash what was not synced, and
// fails on request.
//
// A Disk holds one directory tree. Contents of a file are durable up to its last Sync; names (created, renamed,
// removed) up to the last SyncDir of their directory. Crash takes, in one moment and under one lock, what a power cut
// at that moment would leave, as a new Disk: always everything durable, and of the rest what the seed says (nothing;
// or for each file some of the newest writes, each whole, torn or absent, and for each directory a prefix of its
// changes). The taken Disk has nothing to do with the old one: whatever goroutines still write there changes nothing
// in it, so a test need not wait for goleveldb's background work.
//
// Copy and Killed are what the kill of a process leaves, and the machine goes on: Copy as if all had been synced then,
// Killed as it is, so that a later Crash can still lose it.
//
// Every change (write, sync, truncate, create, rename, remove, directory sync) has a number, counted from 1 over the
// whole disk. A Plan says at which number the disk crashes or which changes fail. The order of changes made by
// concurrent goroutines is whatever it is; tests state what holds for every order.
//
// All methods are safe for concurrent use; one mutex guards everything.
package faultfs
