#!/usr/bin/env bash
# Prints a line a host: what its node is doing, from proxima status. A node is running, mute (it runs and does not answer),
# stopped, or absent (nothing is deployed); a host may be silent, refuse our key, or have an unknown key itself.
#
#   scripts/status.sh -hosts FILE
#
# Members are those alive / settled as the node sees them; pages are counted since its start. 0 only if all are running.

# shellcheck source-path=SCRIPTDIR source=lib/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/hosts.sh"

parse "$@"

# shellcheck disable=SC2016
script='cd "$dir" 2>/dev/null && [ -x proxima ] || { echo "state absent"; exit 0; }
here=$(pwd -P)
if ! find_node; then
	echo "state stopped"
	[ ! -f logs/node.jsonl ] || tail -n 1 logs/node.jsonl | sed -n "s/.*\"event\":\"stop\".*\"reason\":\"\([^\"]*\)\".*/note \1/p"
	exit 0
fi
if text=$(./proxima status -data data -json 2>&1); then echo "state running"; printf "%s\n" "$text"
else echo "state mute"; echo "note $text"; fi'
# shellcheck disable=SC2317 # each_host calls it
ask() { remote 60 "$1" "$script"; }

# table turns the answer of one host into its line. JSON is indented: a key's depth tells whose it is.
table() {
	awk -v host="$1" '
		/^state / { state = $2; next }
		/^note / { note = substr($0, 6); next }
		/^  "[a-z_]+": \{/ { split($0, q, "\""); part = q[2]; next }
		/^  "uptime_s"/ { up = int(value($0)) }
		/^    "[a-z_]+": [0-9a-z]/ { split($0, q, "\""); v[part "." q[2]] = value($0) }
		/^    "reason": "/ && part == "overlay" { note = $0; sub(/^[^:]*: "/, "", note); sub(/",?$/, "", note) }
		function value(s) { sub(/^[^:]*: /, "", s); sub(/,$/, "", s); return s }
		END {
			if (state != "running") { printf "%-24s %-8s %8s %9s %9s %9s  %s\n", host, state, "-", "-", "-", "-", note; exit }
			members = "alone"
			if ("overlay.alive" in v) members = v["overlay.alive"] "/" v["overlay.settled"]
			printf "%-24s %-8s %7ds %9d %9d %9s  %s\n", host, state, up, v["crawl.pages"], v["frontier.pending"], members, note
		}'
}

begin
each_host ask none "${!names[@]}"
printf '%-24s %-8s %8s %9s %9s %9s  %s\n' host state up pages pending members note
total=${#names[@]} run=0
for i in "${!names[@]}"; do
	if [ "$(result "$i")" = ok ]; then
		table "${names[i]}" <"$work/$i.out"
		! grep -qx 'state running' "$work/$i.out" || run=$((run + 1))
	else
		printf '%-24s %-8s %8s %9s %9s %9s  %s\n' "${names[i]}" "$(result "$i")" - - - - "$(<"$work/$i.text")"
	fi
done
printf '%d of %d nodes run\n' "$run" "$total"
((run < total)) || exit 0
((run == 0)) || exit 1
exit 4
