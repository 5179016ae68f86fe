package config

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/bornode/bornode/internal/nearest"
)

// EnvPrefix opens the names of environment variables that set a key.
const EnvPrefix = "BORNODE"

// EnvName is the environment variable of a key: p2p.listen is BORNODE_P2P_LISTEN.
func EnvName(key string) string {
	return EnvPrefix + "_" + strings.ToUpper(strings.NewReplacer(".", "_", "-", "_").Replace(key))
}

// reserved are variables with our prefix that are not settings.
var reserved = []string{"BORNODE_CONFIG", "BORNODE_LONG", "BORNODE_STORMS", "BORNODE_UPDATE", "BORNODE_FAILPOINT", "BORNODE_FAILPOINT_HOLD", "BORNODE_TESTNET", "BORNODE_TESTNET_PORT", "BORNODE_DIR", "BORNODE_CI"}

// Load reads the file (none if path is empty), then the environment, then the flags that were set (named by key), and
// validates the result. Unknown keys and variables are errors that name the nearest known one.
func Load(path string, environ []string, flags *pflag.FlagSet) (*Config, error) {
	c := Default()
	known := keys(c)
	v := viper.NewWithOptions(viper.KeyDelimiter("."))
	v.SetConfigType("toml")
	if path != "" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, fmt.Errorf("configuration: %w", err)
		}
		if isCutOff(string(text)) {
			return nil, fmt.Errorf("configuration %s is cut off: its last line, %q, is missing; restore the file from a copy, or add that line if nothing else is missing", path, lastLine)
		}
		if err := checkKeys(path, text, known); err != nil {
			return nil, err
		}
		if err := v.ReadConfig(strings.NewReader(string(text))); err != nil {
			return nil, fmt.Errorf("configuration %s: %w", path, err)
		}
	}
	if err := fromEnvironment(v, environ, known); err != nil {
		return nil, err
	}
	if flags != nil {
		flags.VisitAll(func(f *pflag.Flag) {
			if f.Changed && slices.Contains(known, f.Name) {
				v.Set(f.Name, f.Value.String())
				if s, ok := f.Value.(pflag.SliceValue); ok {
					v.Set(f.Name, s.GetSlice())
				}
			}
		})
	}
	of := "configuration"
	if path != "" {
		of += " " + path
	}
	if err := refuseWrongKinds(v); err != nil {
		return nil, fmt.Errorf("%s: %w", of, err)
	}
	if err := v.UnmarshalExact(c); err != nil { // its text has several lines
		return nil, fmt.Errorf("%s: %s", of, strings.Join(strings.Fields(err.Error()), " "))
	}
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("%s: %w", of, err)
	}
	return c, nil
}

func fromEnvironment(v *viper.Viper, environ, known []string) error {
	byName := make(map[string]string, len(known))
	names := make([]string, 0, len(known))
	for _, k := range known {
		byName[EnvName(k)] = k
		names = append(names, EnvName(k))
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, EnvPrefix+"_") || slices.Contains(reserved, name) {
			continue
		}
		key, ok := byName[name]
		if !ok {
			return fmt.Errorf("environment: %s sets nothing; %s", name, hintAt(name, names))
		}
		v.Set(key, value)
	}
	return nil
}

// hintAt ends an error about an unknown setting. There are too many settings to list them.
func hintAt(name string, known []string) string {
	if near := nearest.Name(name, known); near != "" {
		return fmt.Sprintf("did you mean %q?", near)
	}
	return "bornode config prints all settings"
}

// checkKeys compares the keys of a TOML text with the known ones.
func checkKeys(path string, text []byte, known []string) error {
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return fmt.Errorf("configuration %s is not valid TOML: %w", path, err)
	}
	found := flatten(tree, "")
	slices.Sort(found)
	for _, k := range found {
		if !slices.Contains(known, k) {
			return fmt.Errorf("configuration %s: unknown key %q; %s", path, k, hintAt(k, known))
		}
	}
	return nil
}

func flatten(tree map[string]any, prefix string) []string {
	var out []string
	for k, v := range tree {
		if prefix != "" {
			k = prefix + "." + k
		}
		if sub, ok := v.(map[string]any); ok {
			out = append(out, flatten(sub, k)...)
			continue
		}
		out = append(out, k)
	}
	return out
}

// AddFlags adds one flag per setting, named by its key, with its comment as help.
func AddFlags(flags *pflag.FlagSet) {
	for _, s := range sections(Default()) {
		for _, f := range s.fields {
			help := strings.ReplaceAll(f.comment, "\n", " ")
			switch {
			case f.value.Kind() == reflect.Slice:
				flags.StringSlice(f.key, nil, help)
			case f.value.Kind() == reflect.Bool:
				flags.Bool(f.key, f.value.Bool(), help)
			default:
				flags.String(f.key, strings.Trim(literal(f.value), `"`), help)
			}
		}
	}
}
