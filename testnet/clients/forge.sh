#!/bin/sh
# Foundry's forge against a node: sh forge.sh HTTP WS KEY
set -u
client=forge
. "$(dirname "$0")/steps.sh"
forge=$(program forge) || exit 1
cast=$(program cast) || exit 1
cd "$here/foundry" || exit 1
export FOUNDRY_OUT="$tmp/out" FOUNDRY_CACHE_PATH="$tmp/cache" FOUNDRY_BROADCAST="$tmp/broadcast"

must build "$forge" build
ok build "$(printf '%s' "$out" | head -n 1)"

must create "$forge" create src/Counter.sol:Counter --rpc-url "$http" --private-key "$key" --broadcast --json --constructor-args 3
created=$(field deployedTo)
must create "$cast" call "$created" "number()(uint256)" --rpc-url "$http"
equal create 3 "$out"
ok create "$created"

must "script" "$forge" script script/Deploy.s.sol --rpc-url "$http" --private-key "$key" --broadcast
must "chain" "$cast" chain-id --rpc-url "$http"
chain=$out
out=$(cat "$tmp/broadcast/Deploy.s.sol/$chain/run-latest.json")
statuses=$(printf '%s' "$out" | node -p 'JSON.parse(require("fs").readFileSync(0)).receipts.map((r) => r.status).join()')
equal script 0x1,0x1,0x1 "$statuses"
deployed=$(printf '%s' "$out" | node -p 'JSON.parse(require("fs").readFileSync(0)).transactions[0].contractAddress')
counted=$(printf '%s' "$out" | node -p 'JSON.parse(require("fs").readFileSync(0)).transactions[1].hash')
must script "$cast" call "$deployed" "number()(uint256)" --rpc-url "$http"
equal script 10 "$out"
ok script "3 transactions, $deployed"

must "test on a fork" env CHAIN="$chain" COUNTER="$deployed" EXPECTED=10 "$forge" test --fork-url "$http"
case $out in *"5 passed; 0 failed"*) ;; *) fail "test on a fork" "$out" ;; esac
ok "test on a fork" "5 passed"

# The transaction again in Foundry's own EVM: the gas is what the node's receipt says.
must "run again" "$cast" receipt "$counted" gasUsed --rpc-url "$http"
gas=$out
must "run again" "$cast" run "$counted" --rpc-url "$http" --evm-version osaka
case $out in *"Gas used: $gas"*) ;; *) fail "run again" "the receipt says $gas; $out" ;; esac
ok "run again" "gas $gas"

must verify "$cast" code "$created" --rpc-url "$http"
code=$out
must verify node -p "JSON.parse(require('fs').readFileSync('$tmp/out/Counter.sol/Counter.json')).deployedBytecode.object"
equal verify "$out" "$code"
ok verify "the node holds the code that the compiler made"
