package testnet

import (
	"bufio"
	"os"
	"strings"
)

// maxLogLine bounds what is kept of one line of a log.
const maxLogLine = 1 << 20

// LastLines are the last lines of a file, however large it is.
func LastLines(path string, count int) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var last []string
	s := bufio.NewScanner(f)
	s.Buffer(nil, maxLogLine)
	for s.Scan() {
		if last = append(last, s.Text()); len(last) > max(count, 1) {
			last = last[1:]
		}
	}
	return strings.Join(last, "\n"), s.Err()
}

// lastLines is LastLines for error messages.
func lastLines(path string, count int) string {
	text, err := LastLines(path, count)
	if err != nil {
		return err.Error()
	}
	return text
}
