package wallet

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"regexp"
	"slices"
	"strings"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/crypto"
)

// parseSelector reads a selector (0x and 8 digits) or a signature like transfer(address,uint256).
func parseSelector(text string) (sel [4]byte, err error) {
	if digits, ok := strings.CutPrefix(text, "0x"); ok {
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != 4 {
			return sel, fmt.Errorf("method %.80q is no selector: write 0x and 8 hexadecimal digits", text)
		}
		return [4]byte(b), nil
	}
	name, args, ok := strings.Cut(text, "(")
	rest := ""
	if ok && len(text) <= 1024 && identifier.MatchString(name) {
		rest, ok = signatureTypes(args)
	}
	if !ok || rest != "" || len(text) > 1024 || !identifier.MatchString(name) {
		return sel, fmt.Errorf("method %.80q is no signature: write it like transfer(address,uint256), with full types and without names and blanks", text)
	}
	return [4]byte(crypto.Keccak256([]byte(text))[:4]), nil
}

var arraySuffix = regexp.MustCompile(`^(\[[0-9]{0,9}\])*`)

// signatureTypes reads "types)" of a signature and returns what follows. (go-ethereum's parser of selectors panics on
// some texts.)
func signatureTypes(s string) (rest string, ok bool) {
	if after, empty := strings.CutPrefix(s, ")"); empty {
		return after, true
	}
	for {
		if inner, tuple := strings.CutPrefix(s, "("); tuple {
			if s, ok = signatureTypes(inner); !ok {
				return "", false
			}
		} else {
			end := strings.IndexAny(s, ",()[")
			if end < 0 || !primitive.MatchString(s[:end]) || s[:end] == "uint" || s[:end] == "int" {
				return "", false
			}
			s = s[end:]
		}
		s = s[len(arraySuffix.FindString(s)):]
		switch {
		case strings.HasPrefix(s, ","):
			s = s[1:]
		case strings.HasPrefix(s, ")"):
			return s[1:], true
		default:
			return "", false
		}
	}
}

// allows checks everything but the hour's sum. The error names the rule that refuses or is missing.
func (p *Policy) allows(r *request) error {
	if !p.anyAccount && !p.accounts[r.account] {
		return refused("the policy does not allow account %s to sign: add it to accounts", r.account)
	}
	if r.chain != nil && !(r.chain.IsUint64() && slices.Contains(p.file.Chains, r.chain.Uint64())) {
		return refused("the policy does not allow chain %s: add it to chains", r.chain)
	}
	switch r.kind {
	case kindTransaction:
		return p.allowsTx(r)
	case kindAuthorization:
		return p.allowsDelegate(r.chain, r.delegate)
	case kindMessage:
		if !p.file.Messages {
			return refused("the policy does not allow messages: set messages = true")
		}
	case kindHash:
		if !p.file.Hashes {
			return refused("the policy does not allow bare hashes: use personal_sign, or set hashes = true if you must")
		}
	case kindTypedData:
		return p.allowsTyped(r)
	default:
		return refused("the policy knows no rule for %s", r.kind)
	}
	return nil
}

func (p *Policy) allowsTx(r *request) error {
	tx := r.tx
	if err := within("max_value", "sends", tx.Value(), p.maxValue); err != nil {
		return err
	}
	if err := within("max_fee", "may cost a fee of", fee(tx), p.maxFee); err != nil {
		return err
	}
	for _, a := range tx.SetCodeAuthorizations() {
		if err := p.allowsDelegate(a.ChainID.ToBig(), a.Address); err != nil {
			return err
		}
	}
	to := tx.To()
	if to == nil {
		if !p.file.Deploy {
			return refused("the policy does not allow deployments: set deploy = true")
		}
		return nil
	}
	own := p.recipients[*to]
	if own == nil && p.anyRecipient == nil {
		return refused("the policy does not allow the recipient %s: add [[allow]] with to and methods", to)
	}
	if !own.allow(tx.Data()) && !p.anyRecipient.allow(tx.Data()) {
		return refused("the policy does not allow %s at %s: add it to the methods of its [[allow]]", describeMethod(tx.Data()), to)
	}
	return nil
}

func within(rule, verb string, amount, most *big.Int) error {
	switch {
	case amount.Sign() == 0:
		return nil
	case most == nil:
		return refused("the transaction %s %s and the policy has no %s: add the rule", verb, ether(amount), rule)
	case amount.Cmp(most) > 0:
		return refused("the transaction %s %s, %s is %s: lower it, or raise the rule", verb, ether(amount), rule, ether(most))
	}
	return nil
}

// allowsDelegate judges code that an account would run. Ending a delegation needs a rule, too: it has the address 0.
func (p *Policy) allowsDelegate(chain *big.Int, to common.Address) error {
	if !chain.IsUint64() || !slices.Contains(p.file.Chains, chain.Uint64()) {
		return refused("the policy does not allow delegations on chain %s (0 is every chain): add it to chains", chain)
	}
	if !p.delegates[to] {
		return refused("the policy does not allow a delegation to %s: add it to delegates", to)
	}
	return nil
}

func (p *Policy) allowsTyped(r *request) error {
	for _, rule := range p.file.TypedData {
		if rule.Contract != anyone && (common.HexToAddress(rule.Contract) != r.contract || r.contract == (common.Address{})) {
			continue
		}
		if slices.Contains(rule.Types, anyone) || slices.Contains(rule.Types, r.primaryType) {
			return nil
		}
	}
	return refused("the policy does not allow typed data %s for contract %s: add [[typed_data]] with contract and types", r.primaryType, r.contract)
}
