#!/usr/bin/env bash
# Says what it costs nodes to be watched: ten of them on loopback, with a thousand hosts that wait, for a minute each unwatched and watched by a browser.
#   scripts/bench/console.sh PROXIMA   the program; takes three and a half minutes on an idle machine, and needs chromium
set -euo pipefail

[ $# = 1 ] || { sed -n '2,3s/^# \{0,1\}//p' "$0" >&2; exit 2; }
proxima=$(realpath "$1")
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
cd "$dir"
"$proxima" keygen secret >/dev/null
# Nothing listens there: hosts wait longer and longer.
for i in $(seq 1000); do echo "http://127.1.$((i / 250)).$((i % 250 + 1)):8399/"; done >seeds
printf '[crawl]\nend = "never"\n[member]\nfaster = 6.0\n[politeness]\nretry_connect = ["10m", "10m"]\n' >node.toml
for i in 0 1 2 3 4 5 6 7 8 9; do
  more=(-join 127.0.0.1:8370)
  [ "$i" != 0 ] || more=(-seeds seeds -console :8310)
  "$proxima" node -config node.toml -data "n$i" -secret secret -listen "127.0.0.1:835$i" -gossip "127.0.0.1:837$i" -allow 127.0.0.0/8 \
    -contact https://example.org/ -from bench@example.org -quiet "${more[@]}" &
  pids+=($!)
done
ticks() { for p in "${pids[@]}"; do awk '{print $14 + $15}' "/proc/$p/stat"; done; }

sleep 75
ticks >a && sleep 60 && ticks >b
timeout 80 chromium --headless --no-sandbox --disable-gpu --user-data-dir="$dir/browser" --remote-debugging-port=8311 http://127.0.0.1:8310/ 2>/dev/null &
sleep 10
ticks >c && sleep 60 && ticks >d
curl -s http://127.0.0.1:8310/api/v1/status | grep -o '"Ask":{"messages_sent":[0-9]*' || echo "it was not watched"
paste a b c d | awk '{ u += ($2 - $1) / 60; w += ($4 - $3) / 60; printf "node %d: %.2f %% of a core unwatched, %.2f %% watched\n", NR - 1, ($2 - $1) / 60, ($4 - $3) / 60 }
  END { printf "mean: %.2f %% unwatched, %.2f %% watched\n", u / NR, w / NR }'
curl -s http://127.0.0.1:8310/api/v1/hosts | grep -o '"all":[0-9]*'
