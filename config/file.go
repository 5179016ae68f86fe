package config

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/bornode/bornode/internal/vfs"
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

// Write writes the commented file, whole or not at all; it refuses to overwrite one unless told to (os.ErrExist).
func Write(path string, c *Config, overwrite bool) error {
	folder := vfs.OS(filepath.Dir(path), vfs.Modes{File: 0o644, Dir: 0o755})
	if overwrite {
		return vfs.ReplaceFile(folder, filepath.Base(path), Commented(c))
	}
	return vfs.CreateFile(folder, filepath.Base(path), Commented(c))
}
