// Package aside keeps what a start or a repair is about to cut off, rewrite or take away because it is damaged under a dated
// name beside it (NAME.damaged-TIME), so that whoever looks into the damage finds the bytes as they were: as a copy
// (KeepBytes, KeepFolder), as a second name (KeepLink) or moved (KeepMoved). It keeps no state.
package aside
