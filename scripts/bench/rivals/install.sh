#!/usr/bin/env bash
# Installs what the comparison needs: Debian packages that are absent, Crawlee into the build folder, and the Go programs.
# What cannot be had is said aloud and skipped; the benchmark then runs without that crawler.
set -u
cd "$(dirname "$0")/.."
build="$PWD/.build"
mkdir -p "$build/bin"
missing=0
skip() { echo "SKIPPED: $*" >&2; missing=$((missing + 1)); }

# Scrapy belongs to Debian's own interpreter, wherever another python3 stands first in PATH.
packages=()
/usr/bin/python3 -c 'import scrapy' 2>/dev/null || packages+=(python3-scrapy)
command -v wget2 >/dev/null || packages+=(wget2)
command -v node >/dev/null || packages+=(nodejs)
command -v npm >/dev/null || packages+=(npm)
command -v taskset >/dev/null || packages+=(util-linux)
if [ ${#packages[@]} -gt 0 ]; then
	if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
		skip "no right or no apt-get to install: ${packages[*]}"
	else
		apt-get update -qq || echo "apt-get update failed; trying with the lists at hand" >&2
		for p in "${packages[@]}"; do
			DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$p" >/dev/null || skip "$p: apt-get failed"
		done
	fi
fi

if command -v npm >/dev/null; then
	mkdir -p "$build/crawlee"
	cp rivals/crawlee/package.json rivals/crawlee/crawl.mjs "$build/crawlee/"
	(cd "$build/crawlee" && npm install --omit=dev --no-audit --no-fund --no-package-lock --loglevel=error) || skip "crawlee: npm install failed"
else
	skip "crawlee: no npm"
fi

(cd rivals/colly && go build -o "$build/bin/bench-colly" .) || skip "colly: go build failed"
for program in origin run; do
	go build -o "$build/bin/bench-$program" "./$program" || { echo "FAILED: go build $program" >&2; exit 1; }
done
../build/build.sh "$build/bin/proxima" || skip "proxima: go build failed"
echo "installed; $missing skipped"
