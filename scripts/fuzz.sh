#!/usr/bin/env bash
# Runs every fuzz target of the module, each for the time given (default 20s).
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-20s}
git grep -l -E '^func Fuzz[A-Za-z0-9]+\(f \*testing\.F\)' -- '*_test.go' | while read -r file; do
  dir=$(dirname "$file")
  grep -oE '^func Fuzz[A-Za-z0-9]+' "$file" | sed 's/^func //' | while read -r name; do
    echo "fuzz: ./$dir $name for $time"
    go test "./$dir" -run '^$' -fuzz "^$name\$" -fuzztime "$time"
  done
done
