#!/usr/bin/env bash
# Asks Prometheus what it thinks of the metrics: promtool checks their names and the alerts, and a real Prometheus scrapes three nodes
# that crawl a site on loopback, and answers every query of the dashboard and the alerts.
#   scripts/check/metrics.sh
# Ports from PORT on, by default 8130. Half a minute. Exit codes: 0 all held, 1 something did not, 3 a tool is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
for tool in go promtool prometheus python3 curl jq; do
	command -v "$tool" >/dev/null || { echo "MISSING: $tool; the metrics were not checked" >&2; exit 3; }
done
port=${PORT:-8130}
dir=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; wait; rm -rf "$dir"' EXIT
fail() { echo "$*" >&2; exit 1; }

promtool check rules docs/metrics/alerts.yml

go build -o "$dir/proxima" ./cmd/proxima
"$dir/proxima" keygen "$dir/secret" >/dev/null
mkdir "$dir/www"
for i in $(seq 200); do echo "<a href=/$((i + 1)).html>next</a>" >"$dir/www/$i.html"; done
echo '<a href=/1.html>first</a>' >"$dir/www/index.html"
python3 -m http.server --bind 127.0.0.1 -d "$dir/www" "$port" >/dev/null 2>&1 &
pids+=($!)
printf '[crawl]\nend = "never"\n[member]\nfaster = 6.0\n' >"$dir/node.toml"
targets=
for i in 1 2 3; do
	gossip=127.0.0.1:$((port + 10 + i)) more=(-join "127.0.0.1:$((port + 11))")
	if [ "$i" = 1 ]; then more=("http://127.0.0.1:$port/"); fi
	{ cat "$dir/node.toml"; printf '[metrics]\nlisten = "127.0.0.1:%d"\n' $((port + 20 + i)); } >"$dir/node$i.toml"
	"$dir/proxima" node -config "$dir/node$i.toml" -data "$dir/n$i" -secret "$dir/secret" -listen "127.0.0.1:$((port + i))" -gossip "$gossip" \
		-allow 127.0.0.0/8 -contact https://example.org/ -from check@example.org -quiet "${more[@]}" &
	pids+=($!)
	targets+="\"127.0.0.1:$((port + 20 + i))\","
done
cat >"$dir/prometheus.yml" <<-END
	global: {scrape_interval: 1s, evaluation_interval: 1s}
	rule_files: [$PWD/docs/metrics/alerts.yml]
	scrape_configs:
	  - job_name: proxima
	    static_configs: [{targets: [$targets]}]
END
promtool check config "$dir/prometheus.yml" >/dev/null
prometheus --config.file="$dir/prometheus.yml" --storage.tsdb.path="$dir/tsdb" --web.listen-address="127.0.0.1:$((port + 30))" >"$dir/prometheus.log" 2>&1 &
pids+=($!)

ask() { curl -sf --data-urlencode "query=$1" "http://127.0.0.1:$((port + 30))/api/v1/query"; }
for _ in $(seq 90); do
	if [ "$(ask 'count(proxima_members{state="alive"} == 3)' | jq -r '.data.result[0].value[1] // 0' || true)" = 3 ]; then break; fi
	sleep 1
done
[ "$(ask 'count(proxima_members{state="alive"} == 3)' | jq -r '.data.result[0].value[1] // 0')" = 3 ] || { tail -5 "$dir/prometheus.log" >&2; fail "Prometheus does not see three nodes that see each other"; }
sleep 10 # rates need some scrapes

said=$(curl -s "http://127.0.0.1:$((port + 21))/metrics" | promtool check metrics 2>&1) || { echo "$said" >&2; fail "promtool finds fault with the metrics"; }
queries=0
while read -r query; do
	answer=$(ask "$query") || fail "Prometheus refuses $query"
	[ "$(jq '.data.result | length' <<<"$answer")" -gt 0 ] || fail "$query gives nothing"
	queries=$((queries + 1))
done < <(jq -r '.. | .expr? // empty' docs/metrics/grafana.json)
rules=$(curl -sf "http://127.0.0.1:$((port + 30))/api/v1/rules")
[ "$(jq '[.data.groups[].rules[] | select(.health != "ok")] | length' <<<"$rules")" = 0 ] || fail "an alert cannot be evaluated: $rules"
[ "$(jq '[.data.groups[].rules[] | select(.state == "firing")] | length' <<<"$rules")" = 0 ] || fail "an alert fires though nothing is wrong: $rules"
echo "promtool is content; $queries queries of the dashboard and $(jq '[.data.groups[].rules[]] | length' <<<"$rules") alerts have answers"
