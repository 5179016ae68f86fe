#!/bin/sh
# Foundry's cast against a node: sh cast.sh HTTP WS KEY
set -u
if [ $# -ne 3 ]; then
	echo "usage: sh cast.sh http://host:port ws://host:port 0xPRIVATEKEY" >&2
	exit 2
fi
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
http=$1 ws=$2 key=$3
limit=${CLIENT_TIMEOUT_MS:-120000}
to=0x00000000000000000000000000000000000c11e2
heads=$(mktemp)
watcher=

# The program itself: npm has it for x86-64 Linux, elsewhere it is the one on the PATH.
cast=$(command -v cast)
for f in "$here"/node_modules/@foundry-rs/cast-*/bin/cast; do [ -x "$f" ] && cast=$f; done
if [ -z "$cast" ]; then
	echo "FAILED cast start: cast is not installed; run make deps, or install Foundry on a machine that is not x86-64 Linux"
	exit 1
fi
cast() { "$cast" "$@"; }
clean() {
	[ -n "$watcher" ] && kill "$watcher" 2>/dev/null
	rm -f "$heads"
}
trap clean EXIT
fail() {
	echo "FAILED cast $1: $2"
	exit 1
}
ok() { echo "ok cast $1: $2"; }

# must STEP COMMAND...: runs it; what it prints is in $out.
must() {
	step=$1
	shift
	out=$("$@" 2>&1) || fail "$step" "$out"
}
field() { printf '%s\n' "$out" | node -e 'let s="";process.stdin.on("data",d=>s+=d).on("end",()=>{const v=JSON.parse(s)[process.argv[1]];console.log(v===undefined?"":v)})' "$1"; }
# until STEP COMMAND...: repeats it until it succeeds or the time is over.
until_ok() {
	step=$1
	shift
	end=$(($(date +%s) + limit / 1000))
	until "$@"; do
		[ "$(date +%s)" -lt "$end" ] || fail "$step" "nothing after $limit ms"
		sleep 0.2
	done
}

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
must "subscribe to logs" cast block-number --rpc-url "$ws"
ok "subscribe to logs" "over WebSocket"

# The subscription may need a moment: the call is repeated until a log has come.
stored() {
	must call cast send "$contract" "store(uint256,string)" 44 "by cast" --private-key "$key" --rpc-url "$http" --json
	[ "$(field status)" = 0x1 ] || fail call "$out"
	block=$(field blockNumber)
	blockhash=$(field blockHash)
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

out=$(cast call "$contract" "store(uint256,string)" 13 "" --rpc-url "$http" 2>&1) && fail "revert reasons" "no revert"
case $out in *"thirteen is refused"*) ;; *) fail "revert reasons" "$out" ;; esac
ok "revert reasons" "thirteen is refused"

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
until_ok finalized final
ok finalized "block $n"
