package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/big"
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
)

// envPrefix opens the names of environment variables that set something.
const envPrefix = "BORCLI_"

// configName is the settings file in the home folder, read if it is there.
const configName = ".borcli.toml"

// How long a sending command waits.
const (
	waitNone     = "none"
	waitIncluded = "included"
	waitFinal    = "final"
)

// settings are what every command can be told, by flag (--chain-id), environment (BORCLI_CHAIN_ID) or file (chain_id).
type settings struct {
	Node         string        `mapstructure:"node" comment:"the node's JSON-RPC: http://, https://, ws:// or wss:// address, or the path of its Unix socket"`
	ChainID      uint64        `mapstructure:"chain_id" comment:"refuse to sign for any other chain than this one; 0: take the node's word"`
	Wallet       string        `mapstructure:"wallet" comment:"the wallet: path of borwallet's Unix socket, or its http:// address"`
	WalletToken  string        `mapstructure:"wallet_token_file" comment:"file with the wallet's token (mode 0600); needed over http only"`
	From         string        `mapstructure:"from" comment:"account that signs; empty: the key file's, or the only unlocked one of the wallet"`
	Key          string        `mapstructure:"key" comment:"sign with this file instead of the wallet: geth keystore, raw hex key or a node's keys/producer.json (mode 0600)"`
	PasswordFile string        `mapstructure:"password_file" comment:"file with the password (mode 0600); empty: ask on the terminal, or read standard input"`
	JSON         bool          `mapstructure:"json" comment:"print JSON instead of tables"`
	Wait         string        `mapstructure:"wait" comment:"what a sending command waits for: none, included (in a block) or final (can never be undone)"`
	Timeout      time.Duration `mapstructure:"timeout" comment:"how long to wait for what --wait names"`
	MostFee      string        `mapstructure:"most_fee" comment:"refuse to send a transaction that could cost a higher fee"`
	Yes          bool          `mapstructure:"yes" comment:"do not ask before sending or deleting"`
}

func defaultSettings(home string) settings {
	return settings{
		Node: "http://127.0.0.1:8545", Wallet: filepath.Join(home, ".borwallet", "borwallet.sock"),
		Wait: waitIncluded, Timeout: 2 * time.Minute, MostFee: "1ether",
	}
}

type settingField struct {
	key     string // in the file
	comment string
	value   reflect.Value
}

func (f settingField) flag() string { return strings.ReplaceAll(f.key, "_", "-") }
func (f settingField) env() string  { return envPrefix + strings.ToUpper(f.key) }

// settingFields lists the settings in order; the values can be set.
func settingFields(s *settings) []settingField {
	v := reflect.ValueOf(s).Elem()
	out := make([]settingField, v.NumField())
	for i := range out {
		tag := v.Type().Field(i).Tag
		out[i] = settingField{tag.Get("mapstructure"), tag.Get("comment"), v.Field(i)}
	}
	return out
}

// addSettingFlags adds a flag for every setting, and --config.
func addSettingFlags(flags *pflag.FlagSet, home string) {
	flags.String("config", "", "settings file (default ~/"+configName+" if it exists)")
	s := defaultSettings("~")
	for _, f := range settingFields(&s) {
		switch v := f.value.Interface().(type) {
		case bool:
			flags.Bool(f.flag(), v, f.comment)
		case uint64:
			flags.Uint64(f.flag(), v, f.comment)
		case time.Duration:
			flags.Duration(f.flag(), v, f.comment)
		default:
			flags.String(f.flag(), f.value.String(), f.comment)
		}
	}
}

// loadSettings reads the file, then the environment, then the flags that were set. Unknown keys and variables are
// errors that name the nearest known one.
func loadSettings(flags *pflag.FlagSet, environ []string, home string) (*settings, error) {
	s := defaultSettings(home)
	fields := settingFields(&s)
	v := viper.New()
	v.SetConfigType("toml")
	path, err := configPath(flags, environ, home)
	if err != nil {
		return nil, err
	}
	if path != "" {
		if err := readSettingsFile(v, path, fields); err != nil {
			return nil, err
		}
	}
	if err := readEnvironment(v, environ, fields); err != nil {
		return nil, err
	}
	for _, f := range fields {
		if x := flags.Lookup(f.flag()); x != nil && x.Changed {
			v.Set(f.key, x.Value.String())
		}
	}
	for _, f := range fields {
		if want := wrongType(f.value.Interface(), v.Get(f.key)); want != "" && v.IsSet(f.key) {
			return nil, fail(exitUsage, "--%s (%s) is %q: use %s", f.flag(), f.env(), fmt.Sprint(v.Get(f.key)), want)
		}
	}
	if err := v.UnmarshalExact(&s); err != nil {
		return nil, fail(exitUsage, "settings: %s", strings.Join(strings.Fields(err.Error()), " "))
	}
	s.Wallet, s.Key, s.PasswordFile, s.WalletToken = inHome(s.Wallet, home), inHome(s.Key, home), inHome(s.PasswordFile, home), inHome(s.WalletToken, home)
	return &s, s.validate()
}

// wrongType says what a setting has to be if the value given for it is not that; "" if it is.
func wrongType(setting, given any) string {
	text := fmt.Sprint(given)
	switch setting.(type) {
	case bool:
		if _, err := strconv.ParseBool(text); err != nil {
			return "true or false"
		}
	case uint64:
		if _, err := strconv.ParseUint(text, 0, 64); err != nil {
			return "a whole number"
		}
	case time.Duration:
		if _, err := time.ParseDuration(text); err != nil {
			return "a time such as 2m or 30s"
		}
	}
	return ""
}

func (s *settings) validate() error {
	if s.Node == "" {
		return fail(exitUsage, "no node is named: give --node, %sNODE or node in the settings file", envPrefix)
	}
	if !slices.Contains([]string{waitNone, waitIncluded, waitFinal}, s.Wait) {
		return fail(exitUsage, "--wait is %q: use none, included or final", s.Wait)
	}
	if s.Timeout <= 0 {
		return fail(exitUsage, "--timeout is %s: use a positive time such as 2m", s.Timeout)
	}
	if _, err := s.mostFee(); err != nil {
		return fail(exitUsage, "--most-fee: %v", err)
	}
	return nil
}

func (s *settings) mostFee() (*big.Int, error) { return parseAmount(s.MostFee) }

// inHome replaces a leading ~ of a path.
func inHome(path, home string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	return path
}

// configPath is the file to read; "" if there is none. Only the default one may be missing.
func configPath(flags *pflag.FlagSet, environ []string, home string) (string, error) {
	if f := flags.Lookup("config"); f != nil && f.Changed {
		return inHome(f.Value.String(), home), nil
	}
	for _, kv := range environ {
		if path, ok := strings.CutPrefix(kv, envPrefix+"CONFIG="); ok && path != "" {
			return inHome(path, home), nil
		}
	}
	if home == "" {
		return "", nil
	}
	path := filepath.Join(home, configName)
	if _, err := os.Stat(path); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return "", fail(exitUsage, "settings file: %v", err)
	}
	return path, nil
}

func readSettingsFile(v *viper.Viper, path string, fields []settingField) error {
	text, err := readFile(path, maxConfigBytes)
	if err != nil {
		return fail(exitUsage, "settings file: %v", err)
	}
	var tree map[string]any
	if err := toml.Unmarshal(text, &tree); err != nil {
		return fail(exitUsage, "settings file %s is not valid TOML: %v", path, err)
	}
	known := make([]string, len(fields))
	for i, f := range fields {
		known[i] = f.key
	}
	for k := range tree {
		if !slices.Contains(known, k) {
			return fail(exitUsage, "settings file %s: unknown key %q%s", path, k, didYouMean(k, known))
		}
	}
	if err := v.ReadConfig(strings.NewReader(string(text))); err != nil {
		return fail(exitUsage, "settings file %s: %v", path, err)
	}
	return nil
}

func readEnvironment(v *viper.Viper, environ []string, fields []settingField) error {
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, envPrefix) || name == envPrefix+"CONFIG" {
			continue
		}
		i := slices.IndexFunc(fields, func(f settingField) bool { return f.env() == name })
		if i < 0 {
			names := make([]string, len(fields))
			for i, f := range fields {
				names[i] = f.env()
			}
			return fail(exitUsage, "environment: %s sets nothing%s", name, didYouMean(name, names))
		}
		v.Set(fields[i].key, value)
	}
	return nil
}

// didYouMean is the end of an error about an unknown name.
func didYouMean(got string, known []string) string {
	return "; " + nearest.Hint(got, known)
}

// commentedSettings is the settings file with the defaults, every line commented out.
func commentedSettings() string {
	var b strings.Builder
	b.WriteString("# Settings of borcli: ~/" + configName + ". A flag (--chain-id) beats the environment (BORCLI_CHAIN_ID), which\n# beats this file. Remove the # before a line to change it.\n")
	s := defaultSettings("~")
	for _, f := range settingFields(&s) {
		value := fmt.Sprintf("%q", fmt.Sprint(f.value.Interface()))
		if k := f.value.Kind(); k == reflect.Bool || k == reflect.Uint64 {
			value = fmt.Sprint(f.value.Interface())
		}
		fmt.Fprintf(&b, "\n# %s\n#%s = %s\n", f.comment, f.key, value)
	}
	return b.String()
}
