// Package scrub reads what a node keeps on disk over and over, slowly, so that damage is found while other copies still
// exist and not when somebody needs the data. Rounds is the pure core: what is read next, from where, and when. Scrubber
// drives it; its one goroutine owns the rounds. What a file holds, what damage is and how it is mended is for the areas,
// which belong to the packages that own the files: their checks note damage as any reader's do.
package scrub
