#!/usr/bin/env bash
# Installs what the tests need and is not there yet: Node.js with npm, kcat and the Python libraries confluent-kafka and
# kafka-python (the package manager's), and the JavaScript clients and compiler named in the package-lock.json files. Says
# what it does; does nothing when all is there.
set -euo pipefail
cd "$(dirname "$0")/.."

node_major=20 # what the packages of testnet/clients ask for

# as_root runs a command as root, which can_be_root has found possible.
as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }
can_be_root() {
  [ "$(id -u)" = 0 ] && return
  command -v sudo >/dev/null 2>&1 || return 1
  sudo -n true 2>/dev/null || [ -t 0 ] # on a terminal sudo asks for the password
}

missing=
command -v npm >/dev/null 2>&1 || missing="nodejs npm"
command -v kcat >/dev/null 2>&1 || missing="${missing:+$missing }kcat"
# The package manager's libraries are for its own interpreter.
for library in confluent_kafka kafka; do
  "${DEPS_PYTHON:-/usr/bin/python3}" -c "import $library" >/dev/null 2>&1 && continue
  [ "$library" = kafka ] || library=confluent-kafka
  missing="${missing:+$missing }python3-$library"
done
if [ -n "$missing" ]; then
  if ! command -v apt-get >/dev/null 2>&1; then
    echo "deps: install $missing with this system's package manager (Node.js $node_major or newer), then run this again" >&2
    exit 1
  fi
  if ! can_be_root; then
    echo "deps: $missing are missing, and installing them needs root: run \`apt-get update && apt-get install -y $missing\` as root, then this again" >&2
    exit 1
  fi
  echo "deps: installing with apt-get: $missing"
  as_root apt-get update -qq
  # shellcheck disable=SC2086 # several packages
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing >/dev/null
fi
version=$(node --version)
major=${version#v}
if [ "${major%%.*}" -lt "$node_major" ]; then
  echo "deps: Node.js here is $version, and the npm packages need $node_major or newer: install one, for instance from https://nodejs.org, put it first in PATH, then run this again" >&2
  exit 1
fi

# One folder each: contracts (the Solidity compiler), testnet/clients (ethers, viem, web3.js, cast, forge), and a Hardhat
# project with the versions that Hardhat wants.
for dir in contracts testnet/clients testnet/clients/hardhat; do
  stamp="$dir/node_modules/.bornode-lock"
  if [ -f "$stamp" ] && cmp -s "$stamp" "$dir/package-lock.json"; then
    continue
  fi
  echo "deps: installing the npm packages of $dir"
  for try in 1 2 3; do
    if (cd "$dir" && npm ci --ignore-scripts --no-audit --no-fund --loglevel=error); then
      cp "$dir/package-lock.json" "$stamp"
      break
    fi
    [ "$try" = 3 ] && { echo "deps: npm ci failed in $dir; see above" >&2; exit 1; }
    sleep $((try * 5))
  done
done
