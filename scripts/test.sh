#!/usr/bin/env bash
# Checks everything that needs no network of its own: form, vet, staticcheck, build, tests with the race detector. Go is
# all it needs; what else is missing is said in one line and left out. Flags are passed on to go test.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { printf '== %s\n' "$*"; }
missing() { printf 'MISSING: %s\n' "$*" >&2; }

command -v go >/dev/null || { missing "go (see go.mod for the version)"; exit 1; }

# sources DIR lists the Go files below a folder, generated and downloaded ones left out.
sources() { find "$1" \( -name '.?*' -o -name node_modules \) -prune -o -name '*.go' -print; }

[ -e "${PROXIMA_DATA:-data}" ] || missing "measured data (scripts/data.sh fetches it): tests that compare with it are left out"

say gofmt
unformatted=$(sources . | xargs "$(go env GOROOT)/bin/gofmt" -l)
[ -z "$unformatted" ] || { printf 'not formatted:\n%s\n' "$unformatted" >&2; exit 1; }

say go vet
go vet ./...

say staticcheck
tools=scripts/tools/go.mod
if go tool -modfile="$tools" staticcheck -version >/dev/null 2>&1; then
	go tool -modfile="$tools" staticcheck ./...
else
	missing "staticcheck: its modules cannot be downloaded; the code was not checked with it"
fi

say go build
go build ./...

# Modules of their own hold rivals and tools; ./... leaves them out.
while read -r mod; do
	dir=$(dirname "$mod")
	[ -n "$(sources "$dir")" ] || continue
	say "go vet in $dir"
	if (cd "$dir" && go mod download) >/dev/null 2>&1; then
		(cd "$dir" && go vet ./...)
	else
		missing "the modules of $dir cannot be downloaded; it was not vetted"
	fi
done < <(find . \( -name '.?*' -o -name node_modules \) -prune -o -mindepth 2 -name go.mod -print)

race=-race
read -r cc _ <<<"$(go env CC)"
if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$cc" >/dev/null; then
	missing "a C compiler, which the race detector needs; the tests run without it"
	race=
fi
# The race detector of Go 1.26 crashes itself now and then where a bubble of testing/synctest runs its timers: SIGSEGV on the
# system stack, in no line of ours (golang.org/issue/78156 is of that kind). crashes reads what go test printed and says of
# each package that is red whether it "crashed" so, with no failed test, race or panic before, or "failed".
crashes() {
	awk '
		/^SIGSEGV: segmentation violation/ { signal = 1 }
		signal && /^goroutine 0 .*synctest bubble/ { crash = 1 }
		/^--- FAIL|^WARNING: DATA RACE|^panic: |^fatal error: / { fault = 1 }
		/^ok  \t/ { signal = crash = fault = 0 }
		/^FAIL\t/ { print (crash && !fault ? "crashed" : "failed"), $2; signal = crash = fault = 0 }
	' "$1"
}

# Minutes each under the race detector, for no more than figures, or for what shorter tests do as well: they run without it.
slow='^Test(AgainstSerf|NoisyStream|CANZones|Papers|Neighbours|Ablate|TheNodeThatIsHitLosesItsAssignments|HeapHasABound|HostileWeb|ChainIsCrawledToItsEnd'
slow+='|RecordsOfPages|OneHolder|Overlay(OfThirty|Nearest|Liar|Partition|SlowNode|EqualNodes|Cost))$'
skip=()
if [ -n "$race" ]; then skip=(-skip "$slow"); fi

say "go test $race"
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
if ! go test $race "${skip[@]}" -timeout 1000s "$@" ./... 2>&1 | tee "$printed"; then
	red=$(crashes "$printed")
	if [ -z "$red" ] || grep -q ^failed <<<"$red"; then exit 1; fi
	mapfile -t again < <(cut -d' ' -f2 <<<"$red")
	say "the race detector crashed itself; once more, on one processor, where it does not: ${again[*]}"
	go test $race "${skip[@]}" -timeout 1000s -cpu 1 "$@" "${again[@]}"
fi
if [ -n "$race" ]; then
	say "go test of what is too slow for the race detector, without it"
	mapfile -t dirs < <(grep -rlE "^func ${slow:1:-1}\(" --include='*_test.go' . | xargs -n1 dirname | sort -u)
	go test -timeout 1000s -run "$slow" "${dirs[@]}"
fi
say "all is well"
