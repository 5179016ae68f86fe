#!/usr/bin/env bash
# Real verbs on a machine without a NIC: boots a small emulated machine with software RoCE and runs tests in it.
# See docs/rdma-lab.md.
# usage: scripts/rdma-lab.sh [all]                     every part of scripts/rdmalab/parts
#        scripts/rdma-lab.sh run <part>... [-- flags]   some parts; flags are added to their command
#        scripts/rdma-lab.sh test <package> [flags]     the tests of one package (-test.run=..., -test.v)
#        scripts/rdma-lab.sh shell-cmd '<command>'      any command
#        scripts/rdma-lab.sh guest | list | clean       make the guest only; name the parts; delete all of it
# Settings: BORNODE_LAB_MEMORY (MiB) and BORNODE_LAB_SECONDS override what the table says, for test and shell-cmd too;
# BORNODE_LAB_PACK: further files to pack into /lab/bin.
set -euo pipefail
cd "$(dirname "$0")/.."
lab=$PWD/build/rdma-lab
table=scripts/rdmalab/parts

# missing ends the script: the lab cannot run here. That is a failure only where the lab must run.
missing() {
  if [ "${BORNODE_CI:-}" = 1 ]; then
    echo "FAIL rdma-lab: it must run here (BORNODE_CI=1), but lacks $1" >&2
    exit 1
  fi
  echo "SKIP rdma-lab: this machine lacks $1"
  exit 0
}

. scripts/rdmalab/guest.sh

usage() {
  sed -nE '4,${/^#/!q;s/^# ?//p}' "$0" >&2
  exit 2
}

guest_pid= run_dir=
tidy() {
  [ -z "$guest_pid" ] || kill "$guest_pid" 2>/dev/null || true
  [ -z "$run_dir" ] || rm -rf "$run_dir"
}
trap tidy EXIT
trap 'exit 130' INT TERM

# stage makes $run_dir/initrd: the guest and what a part needs beside it: package $1 ("-": none), command $2.
stage() {
  local package=$1 root=$run_dir/root file
  mkdir -p "$root/lab/work" "$root/lab/bin"
  cp -r scripts/rdmalab "$root/lab/scripts"
  if [ "$package" != - ]; then
    go vet -tags rdmalab "$package" && go test -c -tags rdmalab -o "$root/lab/bin/test" "$package" || return 1
    [ -x "$root/lab/bin/test" ] || { echo "rdma-lab: $package has no tests"; return 1; }
    if [ -d "$package/testdata" ]; then cp -r "$package/testdata" "$root/lab/work/"; fi
  fi
  case "$2" in *BORNODE*) go build ${BUILDFLAGS--trimpath} -o "$root/lab/bin/bornode" ./cmd/bornode || return 1 ;; esac
  for file in ${BORNODE_LAB_PACK:-}; do install -m 755 "$file" "$root/lab/bin/" || return 1; done
  copy_libraries "$root" "$root"/lab/bin/*
  printf '%s\n' 'T=/lab/bin/test BORNODE=/lab/bin/bornode' 'cd /lab/work' "$2" >"$root/lab/run"
  pack "$root" "$run_dir/part.cpio"
  cat "$lab/guest/base.cpio" "$run_dir/part.cpio" >"$run_dir/initrd"
  rm -r "$root" "$run_dir/part.cpio"
}

# boot runs the staged guest with $1 MiB for at most $2 seconds, its console in $3; returns the status of the command,
# 124 when the time was over, 125 when the guest's set-up failed, 126 when the guest died.
boot() {
  local status=0
  timeout --foreground -k 5 "$2" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "$1" \
    -kernel "$lab/guest/vmlinuz" -initrd "$run_dir/initrd" \
    -append "console=ttyS0 quiet no_timer_check panic=-1 oops=panic mitigations=off hugepages=8" \
    -device isa-debug-exit,iobase=0xf4,iosize=0x04 \
    -nic none -nodefaults -serial stdio -display none -no-reboot </dev/null >>"$3" 2>&1 &
  guest_pid=$!
  [ -z "${follow:-}" ] || tail -n +1 -f --pid="$guest_pid" "$3" &
  wait "$guest_pid" || status=$?
  guest_pid=
  wait # for tail
  sed -i 's/\r//g' "$3"
  case $status in
    124 | 137) return 124 ;;
    *) [ $((status % 2)) = 1 ] || return 126; return $((status / 2)) ;;
  esac
}

# judge says in one line how a part went, from its status $2 and its log $3; more when it failed.
judge() {
  local name=$1 status=$2 log=$3 took="$4 s, $5 s of CPU" passed reason=
  passed=$(grep -cE '^--- PASS' "$log" || true)
  case $status in
    0) ;;
    123) reason="it could not be built" ;;
    124) reason="not finished in time" ;;
    125) reason="the guest's set-up failed" ;;
    126) reason="the guest died" ;;
    *) reason="exit status $status" ;;
  esac
  if grep -qE '^ *--- SKIP|no tests to run' "$log"; then reason=${reason:-a test skipped}; fi
  if [ -z "$reason" ]; then
    echo "PASS rdma-lab/$name: $took$([ "$passed" = 0 ] || echo ", $passed tests")"
    return 0
  fi
  echo "FAIL rdma-lab/$name: $reason ($took, $passed tests passed; $log)"
  if [ "$(wc -l <"$log")" -le 150 ]; then
    cat "$log"
  else
    { grep -nE -B 25 -A 15 -- '--- (FAIL|SKIP)|^panic:|^fatal error:|DATA RACE|Error Trace|BUG:' "$log" || true; } | head -n 250
    echo "... end of the log:"
    tail -n 25 "$log"
  fi
  return 1
}

# cpu sets cpu_seconds to what this script's children have used so far.
cpu() {
  times >"$run_dir/times" # not in a pipe: a subshell has children of its own
  cpu_seconds=$(tail -n 1 "$run_dir/times" | sed -E 's/([0-9]+)m([0-9]+)[^ ]* ([0-9]+)m([0-9]+).*/\1*60+\2+\3*60+\4/')
  cpu_seconds=$((cpu_seconds))
}

# run_guest runs one command: name, package, memory, seconds, command. Its status is that of boot, or 123 if what it
# needs could not be built. The log is $lab/<name>.log.
run_guest() {
  guest_cpu=0
  local log=$lab/$1.log package=$2 memory=${BORNODE_LAB_MEMORY:-$3} limit=${BORNODE_LAB_SECONDS:-$4} status=0 start=$SECONDS
  : >"$log"
  run_dir=$(mktemp -d "$lab/run.XXXXXX")
  if stage "$package" "$5" >>"$log" 2>&1; then
    start=$SECONDS
    cpu
    guest_cpu=$cpu_seconds
    boot "$memory" "$limit" "$log" || status=$?
    cpu
    guest_cpu=$((cpu_seconds - guest_cpu))
  else
    status=123
  fi
  rm -rf "$run_dir"
  run_dir=
  guest_seconds=$((SECONDS - start))
  return $status
}

# row prints the table's row of a part.
row() { awk -v name="$1" '!/^#/ && $1 == name' "$table"; }
names() { awk '!/^#/ && NF {print $1}' "$table"; }

run_parts() {
  local failed=0 name package memory limit command status flags=
  local parts=()
  while [ $# -gt 0 ]; do
    if [ "$1" = -- ]; then shift; flags=" $*"; break; fi
    [ -n "$(row "$1")" ] || { echo "rdma-lab: no part $1; there are:" $(names) >&2; exit 2; }
    parts+=("$1")
    shift
  done
  guest
  for name in "${parts[@]}"; do
    read -r name package memory limit command < <(row "$name")
    status=0
    run_guest "$name" "$package" "$memory" "$limit" "$command$flags" || status=$?
    judge "$name" "$status" "$lab/$name.log" "$guest_seconds" "$guest_cpu" || failed=1
  done
  return $failed
}

# one runs a single command and shows its output: package, command.
one() {
  local follow=1 status=0
  guest
  run_guest shell "$1" 1024 600 "$2" || status=$?
  case $status in
    123) cat "$lab/shell.log" ;;
    124) echo "rdma-lab: not finished in time" ;;
    126) echo "rdma-lab: the guest died" ;;
  esac
  exit $status
}

[ "$(uname -m)" = x86_64 ] || missing "an x86_64 processor (it is $(uname -m))"
command -v apt-get >/dev/null 2>&1 || missing "apt-get; the guest is made of Debian packages (${lab_packages[*]})"

case "${1:-all}" in
  all) run_parts $(names) ;;
  run) [ $# -ge 2 ] || usage; run_parts "${@:2}" ;;
  test) [ $# -ge 2 ] || usage; one "$2" "\$T $(printf '%q ' "${@:3}")" ;;
  shell-cmd) [ $# -eq 2 ] || usage; one - "$2" ;;
  guest) guest ;;
  list) names ;;
  clean) rm -rf "$lab" ;;
  *) usage ;;
esac
