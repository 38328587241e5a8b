#!/usr/bin/env bash
# Starts the node that deploy.sh put on each host, detached, and waits until it answers. A node that runs already is left
# alone, and that is no failure. A node that ends at once is named with the last line it wrote.
#
#   scripts/start.sh -hosts FILE [-wait 30]
#
#   -wait S   seconds a node may take until it answers (30)

# shellcheck source-path=SCRIPTDIR source=lib/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/hosts.sh"

flag+=([wait]=30)
parse "$@"
number wait 1 3600

# The node writes its own pid, whoever forks in between. Descriptor 9 is the lock, which it must not hold.
# shellcheck disable=SC2016
script='enter
[ -x proxima ] && [ -f node.toml ] || fail "nothing is deployed in $here"
only start
if find_node; then echo "runs already, process $pid"; exit 0; fi
run="echo \$\$ >pid.new && mv pid.new pid && exec ./proxima node -quiet -config node.toml"
detach=setsid
command -v setsid >/dev/null || detach=nohup
$detach sh -c "$run" >>node.out 2>&1 </dev/null 9>&- &
child=$!
tries=$(($1 * 5))
until ./proxima status -data data >/dev/null 2>&1; do
	if ! kill -0 $child 2>/dev/null && ! find_node; then
		code=0; wait $child || code=$?
		fail "ended at once with code $code: $(tail -n 1 node.out)"
	fi
	tries=$((tries - 1))
	[ $tries -gt 0 ] || fail "runs, but does not answer within $1 s: $(tail -n 1 node.out)"
	sleep 0.2
done
echo "started, process $(cat pid)"'
# shellcheck disable=SC2317 # each_host calls it
start() { remote $((flag[wait] + 60)) "$1" "$script" "${flag[wait]}"; }

begin
each_host start all "${!names[@]}"
conclude "run a node"
