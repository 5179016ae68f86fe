package config

import (
	"fmt"
	"os"
	"strings"
)

// Set changes one setting from its text form, as a flag would.
func Set(c *Config, assignment string) error {
	key, value, ok := strings.Cut(assignment, "=")
	if !ok {
		return fmt.Errorf("setting %q: write it as key=value", assignment)
	}
	changed, err := Load("", []string{EnvName(key) + "=" + value}, nil)
	if err != nil {
		return fmt.Errorf("setting %q: %w", assignment, err)
	}
	from, to := sections(changed), sections(c)
	for i := range to {
		for j := range to[i].fields {
			if to[i].fields[j].key == key {
				to[i].fields[j].value.Set(from[i].fields[j].value)
				return nil
			}
		}
	}
	return fmt.Errorf("setting %q: there is no such key", key)
}

// Write writes the commented file; it refuses to overwrite one unless told to.
func Write(path string, c *Config, overwrite bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if !overwrite {
		flags = os.O_WRONLY | os.O_CREATE | os.O_EXCL
	}
	f, err := os.OpenFile(path, flags, 0o644)
	if err != nil {
		return err
	}
	if _, err := f.Write(Commented(c)); err != nil {
		_ = f.Close()
		return err
	}
	return f.Close()
}
