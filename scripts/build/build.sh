#!/usr/bin/env bash
# Builds the program for use: static, without paths of this machine. The first argument is where to put it: ./proxima.
set -euo pipefail
out=$(realpath -m "${1:-proxima}")
cd "$(dirname "$0")/../.."
CGO_ENABLED=0 go build -trimpath -o "$out" ./cmd/proxima
