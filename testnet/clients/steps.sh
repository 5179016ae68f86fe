# What the shell scripts share: arguments, steps, an end with a reason. Sourced with $client set; defines $here, $http,
# $ws, $key, $limit (ms) and a folder $tmp that is deleted at the end.
if [ $# -ne 3 ]; then
	echo "usage: sh $client.sh http://host:port ws://host:port 0xPRIVATEKEY" >&2
	exit 2
fi
here=$(CDPATH= cd "$(dirname "$0")" && pwd)
http=$1 ws=$2 key=$3
limit=${CLIENT_TIMEOUT_MS:-120000}
tmp=$(mktemp -d)
watchers=

clean() {
	for p in $watchers; do kill "$p" 2>/dev/null; done
	rm -rf "$tmp"
}
trap clean EXIT
fail() {
	echo "FAILED $client $1: $2"
	exit 1
}
ok() { echo "ok $client $1: $2"; }

# program NAME: the path of one of Foundry's programs. npm has them for x86-64 Linux, elsewhere they are on the PATH.
program() {
	for f in "$here"/node_modules/@foundry-rs/"$1"-*/bin/"$1"; do [ -x "$f" ] && echo "$f" && return; done
	command -v "$1" && return
	echo "FAILED $client start: $1 is not installed; run make deps, or install Foundry on a machine that is not x86-64 Linux" >&2
	return 1
}

# must STEP COMMAND...: runs it; what it prints is in $out. What it says beside that (Foundry logs requests that its own
# end cut short) is shown if it fails, and is never part of an answer.
must() {
	step=$1
	shift
	out=$("$@" 2>"$tmp/said") || fail "$step" "$out $(cat "$tmp/said")"
}
# refused STEP WORDS COMMAND...: the command fails and says WORDS.
refused() {
	step=$1 words=$2
	shift 2
	out=$("$@" 2>&1) && fail "$step" "not refused: $out"
	case $out in *"$words"*) ;; *) fail "$step" "$out" ;; esac
}
# equal STEP WANT GOT
equal() { [ "$2" = "$3" ] || fail "$1" "wanted $2, got $3"; }
# field NAME: of the JSON object in $out.
field() { printf '%s\n' "$out" | node -e 'let s="";process.stdin.on("data",d=>s+=d).on("end",()=>{const v=JSON.parse(s)[process.argv[1]];console.log(v===undefined?"":v)})' "$1"; }
# until_ok STEP COMMAND...: repeats it until it succeeds or the time is over.
until_ok() {
	step=$1
	shift
	end=$(($(date +%s) + limit / 1000))
	until "$@"; do
		[ "$(date +%s)" -lt "$end" ] || fail "$step" "nothing after $limit ms"
		sleep 0.2
	done
}
