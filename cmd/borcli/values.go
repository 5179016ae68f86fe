package main

import (
	"fmt"

	"github.com/ethereum/go-ethereum/accounts/abi"
)

// valueText writes a decoded ABI value for people.
func valueText(_ abi.Type, v any) string { return fmt.Sprint(v) }
