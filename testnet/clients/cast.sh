#!/bin/sh
# Foundry's cast against a node: sh cast.sh HTTP WS KEY
set -u
client=cast
. "$(dirname "$0")/steps.sh"
cast=$(program cast) || exit 1
cast() { "$cast" "$@"; }
to=0x00000000000000000000000000000000000c11e2
heads=$tmp/logs

must connect cast chain-id --rpc-url "$http"
chain=$out
must connect cast wallet address --private-key "$key"
me=$out
must connect cast balance "$me" --rpc-url "$http"
[ "$out" != 0 ] || fail connect "account $me has no funds"
ok connect "chain $chain"

must "websocket" cast block-number --rpc-url "$ws"
start=$out
ok websocket "block $start"

must transfer cast balance "$to" --rpc-url "$http"
before=$out
must transfer cast send "$to" --value 1gwei --private-key "$key" --rpc-url "$http" --json
[ "$(field status)" = 0x1 ] || fail transfer "$out"
hash=$(field transactionHash)
must transfer cast balance "$to" --rpc-url "$http"
[ "$(node -p "BigInt('$out')-BigInt('$before')===1000000000n")" = true ] || fail transfer "the balance did not grow by the value"
ok transfer "$hash"

must deploy node -p "JSON.parse(require('fs').readFileSync('$here/Sample.json')).bytecode"
code=$out
must deploy cast send --private-key "$key" --rpc-url "$http" --json --create "$code" "constructor(uint256)" 5
[ "$(field status)" = 0x1 ] || fail deploy "$out"
contract=$(field contractAddress)
must deploy cast call "$contract" "value()(uint256)" --rpc-url "$http"
[ "$out" = 5 ] || fail deploy "value is $out"
ok deploy "$contract"

"$cast" logs --subscribe --address "$contract" --rpc-url "$ws" >"$heads" 2>&1 &
watcher=$!
watchers=$watcher
must "subscribe to logs" cast block-number --rpc-url "$ws"
ok "subscribe to logs" "over WebSocket"

# The subscription may need a moment: the call is repeated until a log has come.
stored() {
	must call cast send "$contract" "store(uint256,string)" 44 "by cast" --private-key "$key" --rpc-url "$http" --json
	[ "$(field status)" = 0x1 ] || fail call "$out"
	block=$(field blockNumber)
	blockhash=$(field blockHash)
	stored=$(field transactionHash)
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		grep -q transactionHash "$heads" && return 0
		kill -0 "$watcher" 2>/dev/null || fail "subscribe to logs" "$(cat "$heads")"
		sleep 0.2
	done
	return 1
}
until_ok "log received" stored
must call cast call "$contract" "value()(uint256)" --rpc-url "$http"
[ "$out" = 44 ] || fail call "value is $out"
ok call "block $((block))"
ok "log received" "over WebSocket"

refused "revert reasons" "thirteen is refused" cast call "$contract" "store(uint256,string)" 13 "" --rpc-url "$http"
refused "revert reasons" "$(cast abi-encode "f(uint256,uint256)" 2000 1000 | cut -c3-)" cast call "$contract" "store(uint256,string)" 2000 "" --rpc-url "$http"
must "revert reasons" cast decode-error --sig "TooLarge(uint256,uint256)" "$(printf '%s' "$out" | grep -o '0x[0-9a-f]\{136\}' | head -n 1)"
equal "revert reasons" 2000,1000 "$(printf '%s' "$out" | paste -s -d,)"
ok "revert reasons" "words and a custom error"

must logs cast logs --from-block "$((block))" --to-block "$((block))" --address "$contract" "Stored(address,uint256,string)" --rpc-url "$http"
case $out in *transactionHash*) ;; *) fail logs "$out" ;; esac
ok logs "found"

must block cast block "$((block))" --field hash --rpc-url "$http"
[ "$out" = "$blockhash" ] || fail block "hash is $out, the receipt says $blockhash"
ok block "$blockhash"

final() {
	n=$(cast block finalized --field number --rpc-url "$http" 2>/dev/null) || return 1
	[ "$n" -ge "$((block))" ]
}

price=$(cast gas-price --rpc-url "$http")
typed() { # typed TYPE FLAGS...: sends one of a type
	type=$1
	shift
	must "typed transactions" cast send "$to" --value 1 --private-key "$key" --rpc-url "$http" --json "$@"
	equal "typed transactions" "0x1 $type" "$(field status) $(field type)"
}
typed 0x0 --legacy
typed 0x1 --legacy --access-list "[{\"address\":\"$contract\",\"storageKeys\":[]}]"
typed 0x2
# Type 4: a fresh account without money lets the contract's code act for it.
must "typed transactions" cast wallet new --json
other=$(printf '%s' "$out" | node -p 'const v=JSON.parse(require("fs").readFileSync(0)); const w=[v.data??v].flat(2)[0]; w.address+" "+w.private_key')
must "typed transactions" cast wallet sign-auth "$contract" --private-key "${other#* }" --nonce 0 --rpc-url "$http"
must "typed transactions" cast send "${other% *}" "store(uint256,string)" 5 "by another" --auth "$out" --private-key "$key" --rpc-url "$http" --json
equal "typed transactions" "0x1 0x4" "$(field status) $(field type)"
must "typed transactions" cast code "${other% *}" --rpc-url "$http"
equal "typed transactions" "0xef0100$(printf '%s' "${contract#0x}" | tr A-F a-f)" "$out"
must "typed transactions" cast call "${other% *}" "value()(uint256)" --rpc-url "$http"
equal "typed transactions" 5 "$out"
ok "typed transactions" "0, 1, 2 and 4; gas price $price"

must "access list" cast access-list "$contract" "value()(uint256)" --rpc-url "$http"
case $out in *"gas used"*) ;; *) fail "access list" "$out" ;; esac
must proof cast proof "$contract" 0 --rpc-url "$http"
equal proof 0x2c "$(printf '%s' "$out" | node -p 'JSON.parse(require("fs").readFileSync(0)).storageProof[0].value')"
must storage cast storage "$contract" 0 --rpc-url "$http"
equal storage 44 "$((out))"
ok state "access list, proof, storage"

must trace cast rpc debug_traceTransaction "$stored" '{"tracer":"callTracer"}' --rpc-url "$http"
equal trace "$(printf '%s' "$contract" | tr A-F a-f)" "$(field to)"
must trace cast rpc debug_traceTransaction "$stored" '{"tracer":"prestateTracer","tracerConfig":{"diffMode":true}}' --rpc-url "$http"
case $out in *'"post"'*'"pre"'* | *'"pre"'*'"post"'*) ;; *) fail trace "$out" ;; esac
must trace cast run "$stored" --rpc-url "$http" --evm-version osaka
case $out in *"successfully executed"*) ;; *) fail trace "$out" ;; esac
ok trace "call and prestate tracers, run again"

must pool cast tx-pool status --rpc-url "$http"
case $out in *pending*) ok pool "answered" ;; *) fail pool "$out" ;; esac
refused "unknown method" "-32601" cast rpc eth_doesNotExist --rpc-url "$http"
refused "wrong nonce" "nonce too low" cast send "$to" --value 1 --nonce 0 --private-key "$key" --rpc-url "$http"
ok refusals "unknown method, nonce too low"

until_ok finalized final
ok finalized "block $n"
