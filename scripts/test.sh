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
say "go test $race"
go test $race -timeout 600s "$@" ./...
say "all is well"
