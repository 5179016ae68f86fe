#!/bin/sh
# Compiles the system contracts and generates their Go bindings. Needs Node.js, npm and Go.
#   contracts/build.sh          writes artifacts/ and *_gen.go
#   contracts/build.sh --check  fails if what is in the tree differs by one byte from what the sources give
set -eu
cd "$(dirname "$0")"
case "${1:-}" in
"" | --check) ;;
*)
	echo "usage: contracts/build.sh [--check]" >&2
	exit 2
	;;
esac

if ! cmp -s package-lock.json node_modules/.bornode-lock; then
	npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
	cp package-lock.json node_modules/.bornode-lock
fi

out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
node compile.js "$out"
for name in Producers Members Topics; do
	file=$(echo "$name" | tr '[:upper:]' '[:lower:]')_gen.go
	go tool abigen --v2 --abi "$out/$name.abi" --pkg contracts --type "$name" --out "$out/$file"
done

if [ "${1:-}" = --check ]; then
	status=0
	for f in artifacts/Producers.json artifacts/Members.json artifacts/Topics.json producers_gen.go members_gen.go topics_gen.go; do
		if ! cmp "$f" "$out/$(basename "$f")"; then
			echo "contracts/$f is not what the sources give: run contracts/build.sh and commit the result" >&2
			status=1
		fi
	done
	exit $status
fi
mkdir -p artifacts
cp "$out/Producers.json" "$out/Members.json" "$out/Topics.json" artifacts/
cp "$out/producers_gen.go" "$out/members_gen.go" "$out/topics_gen.go" .
chmod 644 artifacts/*.json ./*_gen.go
