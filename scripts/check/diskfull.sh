#!/usr/bin/env bash
# Fills a small disk under a running crawl: does the node pause and say so, and does it finish once there is room, with
# nothing lost and nothing asked for twice?
#   scripts/check/diskfull.sh
# The disk is a tmpfs in a mount namespace of its own, so this needs root. Data, logs and WARC files of the node go there,
# beside ballast that is removed later. Sites come from scripts/bench/origin on loopback (PORT, by default 8095, and the
# next). Takes half a minute. Exit codes: 0 all held, or not root or a tool is missing, which it says; 1 something did not.
set -euo pipefail
cd "$(dirname "$0")/../.."

port=${PORT:-8095}
control=127.0.0.1:$((port + 1))
disk_mib=400 ballast_mib=200 watermark_mib=64
sites=4 pages=5000

if [ "$(id -u)" != 0 ]; then
  echo "MISSING: root, to mount a disk of its own; nothing was checked" >&2
  exit 0
fi
for tool in go unshare mount curl jq zcat; do
  command -v "$tool" >/dev/null || { echo "MISSING: $tool; nothing was checked" >&2; exit 0; }
done
# In a namespace of our own the mount ends with us, however we end.
if [ "${1:-}" != inside ]; then
  exec unshare --mount --propagation private "$BASH" scripts/check/diskfull.sh inside
fi

tmp=$(mktemp -d)
disk=$tmp/disk
started=()
cleanup() {
  for pid in "${started[@]}"; do
    kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true
  done
  umount "$disk" 2>/dev/null || true
  rm -rf "$tmp"
}
trap cleanup EXIT

say() { printf '== %s\n' "$*"; }
failed=0
# check WHAT GOT WANT prints a row and remembers a difference.
check() {
  local verdict=ok
  [ "$2" = "$3" ] || { verdict="FAILED, want $3"; failed=1; }
  printf '  %-52s %12s  %s\n' "$1" "$2" "$verdict"
}
# await SECONDS WHAT COMMAND... waits until the command succeeds.
await() {
  local until=$((SECONDS + $1)) what=$2
  shift 2
  until "$@"; do
    if ((SECONDS >= until)); then
      echo "diskfull.sh: waited in vain until $what" >&2
      tail -n 5 "$tmp/node.err" >&2 || true
      exit 1
    fi
    sleep 0.2
  done
}
free_mib() { df --output=avail -B1M "$disk" | tail -n 1 | tr -d ' '; }
served() { curl -sf "http://$control/_stats" | jq "$1"; }
events() { jq -s "[.[] | select(.event == \"$1\")] | length" "$disk/data/logs/node.jsonl"; }

say "building"
go build -o "$tmp/proxima" ./cmd/proxima
go build -o "$tmp/origin" ./scripts/bench/origin

mkdir "$disk"
mount -t tmpfs -o "size=${disk_mib}m" tmpfs "$disk"
head -c "$((ballast_mib << 20))" /dev/zero >"$disk/ballast"
say "a disk of $disk_mib MiB, $(free_mib) MiB free, watermark $watermark_mib MiB"

"$tmp/origin" -addresses "$sites" -pages "$pages" -port "$port" -control "$control" &
started+=($!)
is_up() { curl -sf -o "$tmp/urls" "http://$control/_urls"; }
await 60 "the sites are up" is_up

cat >"$tmp/config.toml" <<END
[crawl]
patience = "2s"
[scope]
seed_scope = "host"
[politeness]
own = ["127.0.1.0/24"]
own_parallel = 4
[fetch]
allow_prefixes = ["127.0.1.0/24"]
[frontier]
min_free_mib = $watermark_mib
[sink]
size_bytes = 16777216
END
seeds=()
for i in $(seq "$sites"); do seeds+=("http://127.0.1.$i:$port/"); done
"$tmp/proxima" node -config "$tmp/config.toml" -data "$disk/data" -warc "$disk/warc" "${seeds[@]}" >"$tmp/node.out" 2>"$tmp/node.err" &
node=$!
started+=("$node")

# Packing what was downloaded frees some room, after which the node goes on until the disk is full again.
paused() { kill -0 "$node" && [ -s "$disk/data/logs/node.jsonl" ] && [ "$(events disk_full)" -gt "$(events disk_ok)" ]; }
quiet() { paused && [ "$("$tmp/proxima" status -data "$disk/data" -json | jq .frontier.in_flight)" = 0 ]; }
resumed=none
until [ "$resumed" = "$(events disk_ok 2>/dev/null)" ]; do
  await 120 "the disk is full and downloads under way have ended" quiet
  resumed=$(events disk_ok) at_pause=$(served .pages)
  sleep 3 # many looks at the disk
done
say "paused with $(free_mib) MiB free after $at_pause of $((sites * pages)) pages"
check "status says why" "$("$tmp/proxima" status -data "$disk/data" -json | jq -r .frontier.paused)" "disk full: $watermark_mib MiB must be free"
check "pages asked for in 3 s of pause" "$(($(served .pages) - at_pause))" 0
check "the node still runs" "$(kill -0 "$node" && echo yes || echo no)" yes

rm "$disk/ballast"
say "ballast removed: $(free_mib) MiB free"
code=0
wait "$node" || code=$?
started=("${started[0]}")
check "exit code of the node" "$code" 0
check "ends of $(events disk_full) pauses" "$(events disk_ok)" "$(events disk_full)"
check "warnings and errors beside" \
  "$(jq -s '[.[] | select((.level == "WARN" or .level == "ERROR") and .event != "disk_full")] | length' "$disk/data/logs/node.jsonl")" 0
check "pages served" "$(served .distinct)" "$((sites * pages))"
check "pages served twice" "$(served .repeats)" 0
zcat "$disk"/warc/*.warc.gz | grep -a -c '^WARC-Type: \(response\|revisit\)' >"$tmp/archived" || true
check "answers in the archive" "$(cat "$tmp/archived")" "$(served '.pages + .robots')"
check "files left in the sink" "$(find "$disk/data/sink" -type f | wc -l)" 0
say "finished with $(free_mib) MiB free"
if [ "$failed" != 0 ]; then
  cat "$tmp/node.err" "$tmp/node.out"
  say "something did not hold"
  exit 1
fi
say "all held"
