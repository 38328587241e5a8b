#!/usr/bin/env bash
# Runs the testbed's shortest scenario with real processes and compares: everything must be crawled and nothing lost.
set -euo pipefail
cd "$(dirname "$0")/../.."
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build -o "$dir/proxima" ./cmd/proxima
"$dir/proxima" testbed run ci -out "$dir/run"
"$dir/proxima" compare -html "$dir/report.html" "$dir/run"
"$dir/proxima" compare -json "$dir/run" >"$dir/result.json"
for want in '"coverage": 1,' '"lost": 0'; do
	grep -qF "$want" "$dir/result.json" || { echo "compare does not say $want:" >&2; cat "$dir/result.json" >&2; exit 1; }
done
