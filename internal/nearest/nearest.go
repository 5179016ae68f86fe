package nearest

import (
	"fmt"
	"strings"
)

// Name is the known name nearest to got, or "" if none is near: the edit distance (insert, delete, replace, swap of
// neighbours; case ignored) may be at most a third of the longer name, and one for short names. Among equally near
// names the first wins. Names longer than 256 bytes are near nothing.
func Name(got string, known []string) string {
	if len(got) > 256 {
		return ""
	}
	best, bestDistance := "", -1
	for _, k := range known {
		if len(k) > 256 {
			continue
		}
		d := distance(strings.ToLower(got), strings.ToLower(k))
		if d > max(1, max(len(got), len(k))/3) || (bestDistance >= 0 && d >= bestDistance) {
			continue
		}
		best, bestDistance = k, d
	}
	return best
}

// Hint is the end of an error about an unknown name: the nearest known one, or all of them if none is near.
func Hint(got string, known []string) string {
	if near := Name(got, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "known are " + strings.Join(known, ", ")
}

// distance is the restricted Damerau-Levenshtein distance of two byte strings.
func distance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
