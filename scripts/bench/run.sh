#!/usr/bin/env bash
# Installs what is missing and runs the comparison; all flags go to the program in run/ (see -help).
set -eu
here="$(cd "$(dirname "$0")" && pwd)"
bash "$here/rivals/install.sh"
exec "$here/.build/bin/bench-run" -bench "$here" "$@"
