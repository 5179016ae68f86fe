package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// field is one setting: its dotted key, its comment and its value.
type field struct {
	key     string
	comment string
	value   reflect.Value
}

// section is a TOML table: a struct-typed field of Config.
type section struct {
	key     string
	comment string
	fields  []field
}

var durationType = reflect.TypeFor[time.Duration]()

// sections walks a pointer to a struct in the order of its fields. Scalars of the top level form the section "".
func sections(v any) []section {
	out := []section{{}}
	walk(reflect.ValueOf(v).Elem(), "", "", &out)
	return out
}

func walk(v reflect.Value, prefix, comment string, out *[]section) {
	at := 0
	if prefix != "" {
		*out = append(*out, section{key: prefix, comment: comment})
		at = len(*out) - 1
	}
	t := v.Type()
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get("mapstructure")
		if name == ",squash" {
			squash(v.Field(i), prefix, &(*out)[at])
			continue
		}
		if name == "" || name == "-" {
			continue
		}
		key := name
		if prefix != "" {
			key = prefix + "." + name
		}
		if f.Type.Kind() == reflect.Struct {
			walk(v.Field(i), key, f.Tag.Get("comment"), out)
			continue
		}
		(*out)[at].fields = append((*out)[at].fields, field{key: key, comment: f.Tag.Get("comment"), value: v.Field(i)})
	}
}

// squash adds the settings of a struct whose keys stand beside those of the struct around it.
func squash(v reflect.Value, prefix string, to *section) {
	t := v.Type()
	for i := range t.NumField() {
		if name := t.Field(i).Tag.Get("mapstructure"); name != "" && name != "-" {
			to.fields = append(to.fields, field{key: prefix + "." + name, comment: t.Field(i).Tag.Get("comment"), value: v.Field(i)})
		}
	}
}

// keys lists every known key.
func keys(v any) []string {
	var out []string
	for _, s := range sections(v) {
		for _, f := range s.fields {
			out = append(out, f.key)
		}
	}
	return out
}

// Commented renders a configuration as TOML with its comments.
func Commented(c *Config) []byte {
	var b strings.Builder
	b.WriteString(firstLine + "\n# Each can also be given in the environment (BORNODE_ + the key in capitals with dots as underscores)\n" +
		"# or as a flag of `bornode run`.\n")
	for _, s := range sections(c) {
		if len(s.fields) == 0 {
			continue
		}
		if s.key != "" {
			b.WriteString("\n")
			if s.comment != "" {
				fmt.Fprintf(&b, "# %s\n", s.comment)
			}
			fmt.Fprintf(&b, "[%s]\n", s.key)
		}
		for _, f := range s.fields {
			for line := range strings.SplitSeq(f.comment, "\n") {
				fmt.Fprintf(&b, "# %s\n", line)
			}
			name := f.key[strings.LastIndexByte(f.key, '.')+1:]
			fmt.Fprintf(&b, "%s = %s\n", name, literal(f.value))
		}
	}
	b.WriteString("\n" + lastLine + "\n")
	return []byte(b.String())
}

// A commented file says in its first line that it has the last one, so that a file that was cut off between two lines, and
// is TOML still, does not pass for one that leaves the settings of its lost half at their defaults.
const (
	firstLine = "# bornode.toml: every setting with its default. Without its last line this file was cut off, and is refused."
	lastLine  = "# end of bornode.toml"
)

// isCutOff reports whether a text begins as a commented file and lacks its end.
func isCutOff(text string) bool {
	return strings.HasPrefix(text, firstLine) && !strings.Contains(text, "\n"+lastLine)
}

// literal is a value in TOML.
func literal(v reflect.Value) string {
	if v.Type() == durationType {
		return fmt.Sprintf("%q", v.Interface())
	}
	switch v.Kind() {
	case reflect.String:
		return fmt.Sprintf("%q", v.String())
	case reflect.Slice:
		parts := make([]string, v.Len())
		for i := range v.Len() {
			parts[i] = literal(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Float64, reflect.Float32:
		s := fmt.Sprint(v.Float())
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return s
	}
	return fmt.Sprint(v.Interface())
}
