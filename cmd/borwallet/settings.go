package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pelletier/go-toml/v2"
	"github.com/spf13/pflag"
	"github.com/spf13/viper"

	"github.com/bornode/bornode/internal/nearest"
	"github.com/bornode/bornode/internal/telemetry"
	"github.com/bornode/bornode/wallet"
)

const (
	envPrefix  = "BORWALLET_"
	configName = "borwallet.toml" // in the folder of the wallets
	// envConfig names another file than configName.
	envConfig = envPrefix + "CONFIG"
)

// settings is everything the daemon can be told.
type settings struct {
	Wallet wallet.Config       `mapstructure:",squash"`
	Log    telemetry.LogConfig `mapstructure:"log" comment:"what is logged, on standard error"`
}

func defaults() *settings {
	return &settings{Wallet: wallet.DefaultConfig(), Log: telemetry.DefaultLogConfig()}
}

// setting is one key with what it is for.
type setting struct {
	key, comment string
	value        reflect.Value
}

// list walks the settings: those without a table first, as TOML wants them.
func list(s *settings) []setting {
	var out []setting
	add := func(prefix string, v reflect.Value) {
		for i := range v.NumField() {
			f := v.Type().Field(i)
			out = append(out, setting{prefix + f.Tag.Get("mapstructure"), f.Tag.Get("comment"), v.Field(i)})
		}
	}
	v := reflect.ValueOf(s).Elem()
	add("", v.FieldByName("Wallet"))
	add("log.", v.FieldByName("Log"))
	return out
}

func keys() []string {
	var out []string
	for _, s := range list(defaults()) {
		out = append(out, s.key)
	}
	return out
}

func envName(key string) string {
	return envPrefix + strings.ToUpper(strings.ReplaceAll(key, ".", "_"))
}

// addFlags adds a flag for each setting, named by its key.
func addFlags(flags *pflag.FlagSet) {
	flags.String("config", "", "settings file; by default "+configName+" in dir, if there is one")
	for _, s := range list(defaults()) {
		switch s.value.Kind() {
		case reflect.Bool:
			flags.Bool(s.key, s.value.Bool(), s.comment)
		case reflect.Slice:
			flags.StringSlice(s.key, nil, s.comment)
		default:
			flags.String(s.key, strings.Trim(literal(s.value), `"`), s.comment)
		}
	}
}

// load reads the settings file, then the environment, then the flags that were set, and checks the whole.
func load(environ []string, flags *pflag.FlagSet) (*settings, error) {
	given := viper.NewWithOptions(viper.KeyDelimiter("."))
	path, err := overrides(given, environ, flags)
	if err != nil {
		return nil, err
	}
	s, v := defaults(), viper.NewWithOptions(viper.KeyDelimiter("."))
	v.SetConfigType("toml")
	if path == "" {
		dir := s.Wallet.Dir
		if given.IsSet("dir") {
			dir = given.GetString("dir")
		}
		path = filepath.Join(home(dir), configName)
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			path = ""
		}
	}
	if path != "" {
		if err := readFile(v, home(path)); err != nil {
			return nil, err
		}
	}
	for _, k := range given.AllKeys() {
		v.Set(k, given.Get(k))
	}
	for _, e := range list(s) {
		if want := wrongType(e.value.Type(), v.Get(e.key)); v.IsSet(e.key) && want != "" {
			return nil, fmt.Errorf("settings: %s (%s) is %q: use %s", e.key, envName(e.key), fmt.Sprint(v.Get(e.key)), want)
		}
	}
	if err := v.UnmarshalExact(s); err != nil {
		return nil, fmt.Errorf("settings: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	s.Wallet.Dir = home(s.Wallet.Dir)
	if s.Wallet.Dir, err = filepath.Abs(s.Wallet.Dir); err != nil {
		return nil, err
	}
	s.Wallet.Socket, s.Wallet.Policy = home(s.Wallet.Socket), home(s.Wallet.Policy)
	if err := errors.Join(s.Wallet.Validate(), s.Log.Validate()); err != nil {
		return nil, fmt.Errorf("settings: %w", err)
	}
	return s, nil
}

// wrongType says what a setting has to be if the value given for it is not that; "" if it is.
func wrongType(t reflect.Type, given any) string {
	text := strings.TrimSpace(fmt.Sprint(given))
	switch {
	case t == reflect.TypeFor[time.Duration]():
		if _, err := time.ParseDuration(text); err != nil {
			return "a time such as 2m or 30s"
		}
	case t.Kind() == reflect.Bool:
		if _, err := strconv.ParseBool(text); err != nil {
			return "true or false"
		}
	case t.Kind() == reflect.Int:
		if _, err := strconv.Atoi(text); err != nil {
			return "a whole number"
		}
	case t == reflect.TypeFor[[]uint64]():
		for _, n := range strings.FieldsFunc(strings.Trim(text, "[]"), func(r rune) bool { return r == ',' || r == ' ' }) {
			if _, err := strconv.ParseUint(n, 0, 64); err != nil {
				return "whole numbers, with commas between them"
			}
		}
	}
	return ""
}

// overrides takes the environment and the flags, and says which file they name.
func overrides(v *viper.Viper, environ []string, flags *pflag.FlagSet) (path string, err error) {
	known := keys()
	names := make(map[string]string, len(known))
	all := []string{envConfig}
	for _, k := range known {
		names[envName(k)] = k
		all = append(all, envName(k))
	}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		switch key, ok := names[name]; {
		case name == envConfig:
			path = value
		case ok:
			v.Set(key, value)
		case strings.HasPrefix(name, envPrefix):
			return "", fmt.Errorf("environment: %s sets nothing; %s", name, nearest.Hint(name, all))
		}
	}
	flags.Visit(func(f *pflag.Flag) {
		switch {
		case f.Name == "config":
			path = f.Value.String()
		case slices.Contains(known, f.Name):
			v.Set(f.Name, f.Value.String())
			if s, ok := f.Value.(pflag.SliceValue); ok {
				v.Set(f.Name, s.GetSlice())
			}
		}
	})
	return path, nil
}

func readFile(v *viper.Viper, path string) error {
	if err := wallet.CheckOwn(path); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return fmt.Errorf("settings %s: not valid TOML: %w", path, err)
	}
	known := keys()
	for _, k := range flatten(tree, "") {
		if !slices.Contains(known, k) {
			return fmt.Errorf("settings %s: unknown key %q; %s", path, k, nearest.Hint(k, known))
		}
	}
	if err := v.ReadConfig(strings.NewReader(string(text))); err != nil {
		return fmt.Errorf("settings %s: %w", path, err)
	}
	return nil
}

func flatten(tree map[string]any, prefix string) []string {
	var out []string
	for k, v := range tree {
		if sub, ok := v.(map[string]any); ok {
			out = append(out, flatten(sub, prefix+k+".")...)
			continue
		}
		out = append(out, prefix+k)
	}
	slices.Sort(out)
	return out
}

// home puts the home folder in place of a leading ~.
func home(path string) string {
	rest, ok := strings.CutPrefix(path, "~")
	if !ok || (rest != "" && rest[0] != '/') {
		return path
	}
	dir, err := os.UserHomeDir()
	if err != nil {
		return path
	}
	return filepath.Join(dir, rest)
}

// commented writes the settings as TOML with their comments.
func commented(s *settings) string {
	var b strings.Builder
	b.WriteString("# " + configName + ": every setting with its default. Each can also be given in the environment\n" +
		"# (" + envPrefix + " + the key in capitals with dots as underscores) or as a flag of `borwallet run`.\n")
	table := ""
	for _, e := range list(s) {
		name := e.key
		if t, n, ok := strings.Cut(e.key, "."); ok {
			if name = n; t != table {
				table = t
				fmt.Fprintf(&b, "\n[%s]\n", t)
			}
		}
		fmt.Fprintf(&b, "# %s\n%s = %s\n", e.comment, name, literal(e.value))
	}
	return b.String()
}

// literal is a value in TOML.
func literal(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case time.Duration:
		return fmt.Sprintf("%q", x)
	case string:
		return fmt.Sprintf("%q", x)
	case []uint64:
		return strings.ReplaceAll(fmt.Sprint(x), " ", ", ")
	}
	return fmt.Sprint(v.Interface())
}
