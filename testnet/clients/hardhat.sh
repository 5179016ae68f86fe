#!/bin/sh
# Hardhat against a node: compile, deploy by a script, test. sh hardhat.sh HTTP WS KEY
set -u
client=hardhat
. "$(dirname "$0")/steps.sh"
cd "$here/hardhat" || exit 1
export BORNODE_HTTP="$http" BORNODE_KEY="$key" BORNODE_OUT="$tmp" HARDHAT_DISABLE_TELEMETRY_PROMPT=true
hardhat() { node node_modules/hardhat/internal/cli/bootstrap.js "$@"; }

must compile hardhat compile
[ -s "$tmp/artifacts/contracts/Ledger.sol/Ledger.json" ] || fail compile "no artefact; $out"
ok compile "$(printf '%s' "$out" | grep Compiled)"

must deploy hardhat run scripts/deploy.js
case $out in "Ledger 0x"*) ok deploy "${out#Ledger }" ;; *) fail deploy "$out" ;; esac

must test hardhat test
case $out in *failing*) fail test "$out" ;; *passing*) ok test "$(printf '%s' "$out" | grep passing | tr -s ' ')" ;; *) fail test "$out" ;; esac
