#!/usr/bin/env bash
# Stops the node on each host: in order, so that it says farewell to its peers, and by force if it does not end in time.
# Nothing that was accepted is lost either way. A node that does not run is no failure.
#
#   scripts/stop.sh -hosts FILE [-wait 30]
#
#   -wait S   seconds a node may take to end before it is killed (30)

# shellcheck source-path=SCRIPTDIR source=lib/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/hosts.sh"

flag+=([wait]=30)
parse "$@"
number wait 0 3600

# shellcheck disable=SC2016
script='cd "$dir" 2>/dev/null || { echo "nothing is deployed"; exit 0; }
here=$(pwd -P)
find_node || { rm -f pid; echo "did not run"; exit 0; }
kill -TERM "$pid" 2>/dev/null || true # it may have ended meanwhile
how="stopped, process $pid"
tries=$(($1 * 5))
while ours "$pid"; do
	if [ $tries = 0 ]; then
		kill -KILL "$pid" 2>/dev/null || true
		how="killed, since it did not end within $1 s, process $pid"
	fi
	[ $tries -gt -50 ] || fail "process $pid does not end, not even when killed"
	tries=$((tries - 1))
	sleep 0.2
done
rm -f pid
echo "$how"'
# shellcheck disable=SC2317 # each_host calls it
stop() { remote $((flag[wait] + 60)) "$1" "$script" "${flag[wait]}"; }

begin
each_host stop all "${!names[@]}"
conclude "run no node"
