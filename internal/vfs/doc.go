// Package vfs is the floor under what the node writes: files below one folder, with the durability of POSIX said in the
// interface, so that a test can put a disk under a store that forgets, fails and lies (package faultfs).
//
// Contents of a file are durable after File.Sync; names (created, linked, renamed, removed) after SyncDir of their
// folder. A file that must be whole or not be there at all is written by ReplaceFile or CreateFile.
package vfs
