// Package forge makes histories to measure with: real blocks built by chain and finalised by consensus/dpos with real
// seals, votes and certificates, of one producer, in virtual time. A history is given to a function block by block, or
// kept as the folder of a node (Stored) that a real node process serves it from.
//
// A Chain belongs to one goroutine; transactions of the next blocks are signed on others meanwhile. Nothing here
// connects to anybody.
package forge
