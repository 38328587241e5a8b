#!/usr/bin/env bash
# Checks everything that needs no network of its own: form, vet, tests with the race detector. Go is all it needs; what
# else is missing is said in one line and left out. Flags are passed on to go test. With PROXIMA_LONG=1, as .ci/run calls it, it
# runs staticcheck and the tests that take longer, too.
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

# With room for garbage, compilers and tests take a fourth less of the processors. The second bounds what each process holds.
export GOGC="${GOGC:-400}" GOMEMLIMIT="${GOMEMLIMIT:-2GiB}"

race=-race
read -r cc _ <<<"$(go env CC)"
if [ "$(go env CGO_ENABLED)" != 1 ] || ! command -v "$cc" >/dev/null; then
	missing "a C compiler, which the race detector needs; the tests run without it"
	race=
fi

# Most tests have the same flag: what they share with vet is compiled once.
say "go vet $race"
go vet $race ./...
[ -z "${PROXIMA_LONG:-}" ] || go vet -tags nolab ./cmd/proxima # as releases build it

if [ -n "${PROXIMA_LONG:-}" ]; then
	say staticcheck
	tools=scripts/tools/go.mod
	if go tool -modfile="$tools" staticcheck -version >/dev/null 2>&1; then
		go tool -modfile="$tools" staticcheck ./...
	else
		missing "staticcheck: its modules cannot be downloaded; the code was not checked with it"
	fi
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
fi

# The race detector of Go 1.26 crashes itself now and then where a bubble of testing/synctest runs its timers on two processors:
# SIGSEGV outside of Go code (a nil pointer of ours would be a panic), or a check of its own that fails (golang.org/issue/78156).
# crashes reads what go test printed and says of each package that is red whether it "crashed" so, with no failed test, race or
# panic before, or "failed".
crashes() {
	awk '
		/^SIGSEGV: segmentation violation/ { signal = 1 }
		signal && /^goroutine .*synctest bubble/ { crash = 1 }
		/^ThreadSanitizer: CHECK failed/ { crash = 1 }
		/^--- FAIL|^WARNING: DATA RACE|^panic: |^fatal error: / { fault = 1 }
		/^ok  \t/ { signal = crash = fault = 0 }
		/^FAIL\t/ { print (crash && !fault ? "crashed" : "failed"), $2; signal = crash = fault = 0 }
	' "$1"
}

# Those that take minutes, for no more than figures, or for what scripts/check/ssh does as well.
figures='AgainstSerf|NoisyStream|Papers|Neighbours|Ablate|TheNodeThatIsHitLosesItsAssignments|HeapHasABound|Fleet|Freshness|Overlay(OfThirty|Cost)'
# A large part of a minute each under the race detector, or more of a kind that it sees once. It sees the same code run in other
# tests, so these run without it.
slow='CANZones|RecordsOfPages|HostileWeb|ChainIsCrawledToItsEnd|OneHolder|ChoiceBehindNAT|Outage|Night|Mixtures'
slow+='|Overlay(WithoutWeb|ServerOutOfReach|HungDisk|GrantorWithoutRoom|LimitWithoutRoom|Mute|EndsWithoutMute|BrokenPaths|Nearest|BehindNAT|Liar|Partition|SlowNode|EqualNodes|Drains|DrainsInTrouble|Blocks|Recrawl|OneAddress|HomeDies|EstimatorDies|AskerDies|Random|IsUpgraded|FullNode|OneDirectoryTwice|DirectoriesSwapped|ClocksSetWhileRunning|Acts(Drop|Pause|Seeds|Rotate))'
slow+='|Overlay(GiveUpMoves|AsksForAsManyPagesAsTheLimit|KeepsItsLimitWhenNodesDie|KeepsTheLimitOfAHost|EndsByBytesAndTime)'
slow+='|FarewellReachesWhomGossipMissed|Churn|Partition|BackAfterLong|Presets|NodesConverge|DeadAreRedialled|GoAlone|LoadAndFactorsReachAll'
slow+='|MinorityDoesNotAge|ErasedDiskIsANewcomer|RollingDeath|RestartedMinorityIsNoFounder|Bombs|LargeWindowsDecode|Faults'
slow+='|Overlay(OfSix|OwnerLeaves|ActsSet)|AScenarioInNamespaces|NodeBehindNAT|AllEventsOnThePortableEmulation|LeasesComeAndGo'
slow+='|PersistentHandsOutTheSameBatch|SilentStrangersKeepNoPeerOut|SeparateRuns|ManyAddresses|TheHomeOfABatchGetsItsNeighbours'
# Five seconds and more each under the race detector, and a fourth of that or less without it: they always run, and without it. It
# sees the same code in shorter tests.
brisk='Overlay(Golden|GoesOnForOneNode|FalseEnd|OwnerDies|ActsMove|DrainsItsShare)|TwinOutOfReach|GarbageStreamsCostLittle|CollectorsThatFail'
brisk+='|Overlay(BackupInHandOff|AddressesChange|OfDifferentAssigners|ClocksSetBetweenLives|IsReconfigured)'
brisk+='|CrashAtEveryStep|WhatIsFullHindersNothingElse|SidesNearTheBoundUnite|NoFailureOfTheDiskIsLost|NothingIsLost|LostDisks'
brisk+='|ShortFreezesRepeatNothing|CapturesTakeTurns|WhatIsKept'
skip=(-skip "^Test($figures|$slow|$brisk)$")
rest="$brisk${PROXIMA_LONG:+|$slow|$figures}"

# A store writes what it must to the disk at once. In memory that takes no time, which is most of the time of the tests of nodes.
# It needs some GiB, from which programs may be started.
roomy() {
	local probe free
	free=$(df --output=avail -k "$1" 2>/dev/null | tail -1)
	[ "${free:-0}" -gt $((4 << 20)) ] && probe=$(mktemp -p "$1" 2>/dev/null) || return 1
	printf '#!/bin/sh\n' >"$probe"
	chmod +x "$probe"
	"$probe" 2>/dev/null && rm -f "$probe" || { rm -f "$probe"; return 1; }
}
if roomy /dev/shm; then export GOTMPDIR="${GOTMPDIR:-${TMPDIR:-/tmp}}" TMPDIR=/dev/shm; fi

# Who starts no goroutine, tests included, cannot race, and takes a fraction of the time without the detector.
racy=() calm=()
while read -r dir; do
	if [ -z "$race" ] || grep -qE '^\s*(defer )?go |\.Go\(|synctest|httptest|t\.Parallel|exec\.Command' "$dir"/*.go; then
		racy+=("$dir")
	else
		calm+=("$dir")
	fi
done < <(go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.Dir}}{{end}}' ./... | grep .)

say "go test $race"
printed=$(mktemp)
trap 'rm -f "$printed"' EXIT
# Those that take longest begin first. Some wait more than they work, so one more than the processors run at once. All are vetted already.
if ! go test $race -p "$(($(getconf _NPROCESSORS_ONLN) + 1))" -vet=off "${skip[@]}" -timeout 1000s "$@" ./node ./frontier ./node/member ./cmd/proxima "${racy[@]}" 2>&1 | tee "$printed"; then
	red=$(crashes "$printed")
	if [ -z "$red" ] || grep -q ^failed <<<"$red"; then exit 1; fi
	mapfile -t again < <(cut -d' ' -f2 <<<"$red")
	say "the race detector crashed itself; once more, on one processor, where it does not: ${again[*]}"
	go test $race -vet=off "${skip[@]}" -timeout 1000s -cpu 1 "$@" "${again[@]}"
fi
if [ ${#calm[@]} != 0 ]; then
	say "go test of what cannot race"
	go test -vet=off "${skip[@]}" -timeout 1000s "$@" "${calm[@]}"
fi

say "go test of what is too slow for the race detector${PROXIMA_LONG:+ and of what takes minutes}, without it"
mapfile -t dirs < <(grep -rlE "^func Test($rest)\(" --include='*_test.go' . | xargs -n1 dirname | sort -u)
go test -vet=off -timeout 1000s -run "^Test($rest)$" ./node "${dirs[@]}" # those of node wait for nothing, and take longest
say "all is well"
