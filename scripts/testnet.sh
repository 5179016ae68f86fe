#!/usr/bin/env bash
# A local network of real processes in .testnet (or $BORNODE_TESTNET): 4 producers and 1 observer, on ports from 28500
# (or $BORNODE_TESTNET_PORT; 0 chooses a free range).
# A network that is in the folder already goes on: what of it does not run is started.
# usage: scripts/testnet.sh up|down|status|... (anything else is handed to `bornode testnet` with the folder set)
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${BORNODE_TESTNET:-.testnet}
bin=build/bin/bornode
[ -x "$bin" ] || make build
if [ "${1:-up}" = up ] && [ $# -le 1 ] && [ -f "$dir/network.json" ]; then
  echo "there is a network in $dir already: going on with it (make testnet-down deletes it)"
  exec "$bin" testnet start --dir "$dir"
fi
case "${1:-up}" in
  up) exec "$bin" testnet up --dir "$dir" --nodes 4 --observers 1 --base-port "${BORNODE_TESTNET_PORT:-28500}" "${@:2}" ;;
  down) exec "$bin" testnet down --dir "$dir" --delete "${@:2}" ;;
  *) exec "$bin" testnet "$1" --dir "$dir" "${@:2}" ;;
esac
