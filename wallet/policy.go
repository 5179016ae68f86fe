package wallet

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/common/hexutil"
	"github.com/pelletier/go-toml/v2"

	"github.com/bornode/bornode/internal/nearest"
)

// policyFile is the form of a policy in TOML or JSON. What no rule allows is refused.
type policyFile struct {
	Accounts        []string    `toml:"accounts" json:"accounts"`
	Chains          []uint64    `toml:"chains" json:"chains"`
	MaxValue        string      `toml:"max_value" json:"max_value"`
	MaxFee          string      `toml:"max_fee" json:"max_fee"`
	MaxValuePerHour string      `toml:"max_value_per_hour" json:"max_value_per_hour"`
	Deploy          bool        `toml:"deploy" json:"deploy"`
	Messages        bool        `toml:"messages" json:"messages"`
	Hashes          bool        `toml:"hashes" json:"hashes"`
	Delegates       []string    `toml:"delegates" json:"delegates"`
	Allow           []allowRule `toml:"allow" json:"allow"`
	TypedData       []typedRule `toml:"typed_data" json:"typed_data"`
}

type allowRule struct {
	To      string   `toml:"to" json:"to"`
	Methods []string `toml:"methods" json:"methods"`
}

type typedRule struct {
	Contract string   `toml:"contract" json:"contract"`
	Types    []string `toml:"types" json:"types"`
}

// Words of a policy that stand for more than one thing.
const (
	anyone      = "*"
	plainMethod = "transfer" // value without data
)

// Policy is a policy that was read and checked. It does not change.
type Policy struct {
	file             policyFile
	accounts         map[common.Address]bool
	anyAccount       bool
	maxValue, maxFee *big.Int // nil: the rule is missing
	perHour          *big.Int
	recipients       map[common.Address]*methods
	anyRecipient     *methods
	delegates        map[common.Address]bool
}

// methods are what may be called.
type methods struct {
	every, plain bool
	selectors    map[[4]byte]bool
}

// LoadPolicy reads a policy file; nobody but its owner may be able to change it.
func LoadPolicy(path string) (*Policy, error) {
	fi, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w; write one (docs/wallet.md), or use confirm = show or ask", err)
	}
	if fi.Mode().Perm()&0o022 != 0 {
		return nil, fmt.Errorf("policy %s has mode %04o, so others can change it: run chmod go-w %s", path, fi.Mode().Perm(), path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("policy: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, MaxPolicyFile+1))
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	p, err := ParsePolicy(text, strings.EqualFold(filepath.Ext(path), ".json"))
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", path, err)
	}
	return p, nil
}

// ParsePolicy reads a policy in TOML, or in JSON. Unknown keys are errors.
func ParsePolicy(text []byte, isJSON bool) (*Policy, error) {
	if len(text) > MaxPolicyFile {
		return nil, fmt.Errorf("it has more than %d bytes", MaxPolicyFile)
	}
	var tree map[string]any
	decode := toml.Unmarshal
	if isJSON {
		decode = json.Unmarshal
	}
	if err := decode(text, &tree); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	if err := checkNames(tree, reflect.TypeFor[policyFile](), ""); err != nil {
		return nil, err
	}
	p := &Policy{}
	if err := decode(text, &p.file); err != nil {
		return nil, fmt.Errorf("it cannot be read: %w", err)
	}
	return p, p.build()
}

// checkNames compares the keys of a text with those of a struct, and with those of the structs in its lists.
func checkNames(tree map[string]any, t reflect.Type, prefix string) error {
	fields := make(map[string]reflect.Type, t.NumField())
	var names []string
	for i := range t.NumField() {
		name := t.Field(i).Tag.Get("toml")
		fields[name] = t.Field(i).Type
		names = append(names, name)
	}
	for _, key := range sortedKeys(tree) {
		ft, ok := fields[key]
		if !ok {
			if near := nearest.Name(key, names); near != "" {
				return fmt.Errorf("unknown key %.80q; did you mean %q?", prefix+key, prefix+near)
			}
			return fmt.Errorf("unknown key %.80q: use %s", prefix+key, strings.Join(names, ", "))
		}
		if ft.Kind() != reflect.Slice || ft.Elem().Kind() != reflect.Struct {
			continue
		}
		list, _ := tree[key].([]any)
		for _, item := range list {
			sub, ok := item.(map[string]any)
			if !ok {
				return fmt.Errorf("%s is a list of tables: write [[%s]]", key, key)
			}
			if err := checkNames(sub, ft.Elem(), key+"."); err != nil {
				return err
			}
		}
	}
	return nil
}

func sortedKeys(tree map[string]any) []string {
	keys := make([]string, 0, len(tree))
	for k := range tree {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// build checks the file's values and puts them into a form to look things up in.
func (p *Policy) build() (err error) {
	f := &p.file
	if max(len(f.Accounts), len(f.Chains), len(f.Delegates), len(f.Allow), len(f.TypedData)) > MaxPolicyRules {
		return fmt.Errorf("it has more than %d rules of one kind", MaxPolicyRules)
	}
	for _, a := range []struct {
		key, text string
		to        **big.Int
	}{{"max_value", f.MaxValue, &p.maxValue}, {"max_fee", f.MaxFee, &p.maxFee}, {"max_value_per_hour", f.MaxValuePerHour, &p.perHour}} {
		if a.text == "" {
			continue
		}
		if *a.to, err = parseAmount(a.text); err != nil {
			return fmt.Errorf("%s: %w", a.key, err)
		}
	}
	if p.accounts, p.anyAccount, err = addressSet("accounts", f.Accounts); err != nil {
		return err
	}
	if p.delegates, _, err = addressSet("delegates", f.Delegates); err != nil {
		return err
	}
	if slices.Contains(f.Delegates, anyone) {
		return fmt.Errorf("delegates cannot be %q: name the contracts that may act for an account", anyone)
	}
	p.recipients = make(map[common.Address]*methods)
	for i, rule := range f.Allow {
		if err := p.addRecipient(rule); err != nil {
			return fmt.Errorf("allow number %d: %w", i+1, err)
		}
	}
	for i, rule := range f.TypedData {
		if rule.Contract != anyone && !common.IsHexAddress(rule.Contract) {
			return fmt.Errorf("typed_data number %d: contract is %.80q: use an address or %q", i+1, rule.Contract, anyone)
		}
	}
	return nil
}

func (p *Policy) addRecipient(rule allowRule) error {
	m := &p.anyRecipient
	var known *methods
	if rule.To != anyone {
		if !common.IsHexAddress(rule.To) {
			return fmt.Errorf("to is %.80q: use an address or %q", rule.To, anyone)
		}
		known = p.recipients[common.HexToAddress(rule.To)]
		m = &known
	}
	if *m == nil {
		*m = &methods{selectors: make(map[[4]byte]bool)}
	}
	if len(rule.Methods) > MaxPolicyRules {
		return fmt.Errorf("it has more than %d methods", MaxPolicyRules)
	}
	for _, text := range rule.Methods {
		switch text {
		case anyone:
			(*m).every = true
		case plainMethod:
			(*m).plain = true
		default:
			sel, err := parseSelector(text)
			if err != nil {
				return err
			}
			(*m).selectors[sel] = true
		}
	}
	if known != nil {
		p.recipients[common.HexToAddress(rule.To)] = known
	}
	return nil
}

func addressSet(key string, list []string) (set map[common.Address]bool, every bool, err error) {
	set = make(map[common.Address]bool, len(list))
	for _, s := range list {
		switch {
		case s == anyone:
			every = true
		case common.IsHexAddress(s):
			set[common.HexToAddress(s)] = true
		default:
			return nil, false, fmt.Errorf("%s: %.80q is no address of 20 bytes in hexadecimal", key, s)
		}
	}
	return set, every, nil
}

// policyJudge decides by the policy and remembers what each account spent within the last hour.
type policyJudge struct {
	policy *Policy
	mu     sync.Mutex
	spent  map[common.Address][]spending
}

type spending struct {
	at    time.Time // a whole second
	value *big.Int
}

func (j *policyJudge) decide(_ context.Context, r *request) error {
	if err := j.policy.allows(r); err != nil {
		return err
	}
	if r.kind != kindTransaction {
		return nil
	}
	if cost := new(big.Int).Add(r.tx.Value(), fee(r.tx)); cost.Sign() > 0 {
		return j.spend(r.account, cost, time.Now())
	}
	return nil
}

// spend takes value and fee of a transaction from what the account may spend within an hour. What is spent in one
// second is one entry, so the list is short however much is signed; it counts until the whole second is an hour old.
func (j *policyJudge) spend(account common.Address, value *big.Int, now time.Time) error {
	if j.policy.perHour == nil {
		return refused("the policy has no max_value_per_hour, so nothing that has a value or a fee is signed: add the rule")
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.spent == nil {
		j.spent = make(map[common.Address][]spending)
	}
	list := slices.DeleteFunc(j.spent[account], func(s spending) bool { return now.Sub(s.at) >= time.Hour+time.Second })
	sum := new(big.Int).Set(value)
	for _, s := range list {
		sum.Add(sum, s.value)
	}
	j.spent[account] = list
	if sum.Cmp(j.policy.perHour) > 0 {
		return refused("with this transaction %s would spend %s within an hour, fees included, max_value_per_hour is %s: wait, or raise the rule", account, ether(sum), ether(j.policy.perHour))
	}
	second := now.Truncate(time.Second)
	if n := len(list); n > 0 && list[n-1].at.Equal(second) {
		list[n-1].value.Add(list[n-1].value, value)
		return nil
	}
	j.spent[account] = append(list, spending{second, new(big.Int).Set(value)})
	return nil
}

// parseAmount reads "1.5 ether", "20 gwei" or "7 wei".
func parseAmount(text string) (*big.Int, error) {
	wrong := fmt.Errorf("%.80q is no amount: write it like \"1.5 ether\", \"20 gwei\" or \"7 wei\"", text)
	number, unit, ok := strings.Cut(strings.TrimSpace(text), " ")
	digits, known := map[string]int{"ether": 18, "gwei": 9, "wei": 0}[strings.TrimSpace(unit)]
	whole, part, _ := strings.Cut(number, ".")
	if !ok || !known || whole == "" || len(whole) > 60 || len(part) > digits || strings.Trim(whole+part, "0123456789") != "" {
		return nil, wrong
	}
	n, ok := new(big.Int).SetString(whole+part+strings.Repeat("0", digits-len(part)), 10)
	if !ok {
		return nil, wrong
	}
	return n, nil
}

func (m *methods) allow(data []byte) bool {
	switch {
	case m == nil:
		return false
	case m.every:
		return true
	case len(data) == 0:
		return m.plain
	case len(data) < 4:
		return false
	}
	return m.selectors[[4]byte(data[:4])]
}

func describeMethod(data []byte) string {
	switch {
	case len(data) == 0:
		return "a plain transfer"
	case len(data) < 4:
		return "data that names no method"
	}
	return "method " + hexutil.Encode(data[:4])
}
