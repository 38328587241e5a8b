# shellcheck shell=sh
# What package fleet does on a host: sh -c "$(cat host.sh)" sh DIR FUNCTION [WORD...]. A host needs Linux, a POSIX shell, tar, gzip and
# coreutils. Neither the text nor the words may be secret, since others can see them in the list of processes.

set -eu
umask 077
export LC_ALL=C
case $1 in /*) dir=$1 ;; *) dir=$HOME/$1 ;; esac
shift

fail() { echo "$*" >&2; exit 1; }
enter() { cd "$dir" 2>/dev/null || fail "nothing is deployed in $dir"; here=$(pwd -P); }

# only NAME waits for the lock: one at a time here.
only() {
	command -v flock >/dev/null || return 0
	exec 9>"$1.lock"
	flock -w 10 9 || fail "another $1 is under way"
}

# ours PID says whether a process is a node that runs here.
ours() {
	[ "/proc/$1/cwd" -ef . ] || return 1
	case $(readlink "/proc/$1/exe" 2>/dev/null) in "$here"/proxima | "$here/proxima (deleted)") ;; *) return 1 ;; esac
}

# find_node finds pid by the pid file or, where that is lost or wrong, among all processes.
find_node() {
	pid=
	if [ -s pid ]; then read -r pid <pid || true; fi
	case $pid in "" | *[!0-9]*) ;; *) if ours "$pid"; then return 0; fi ;; esac
	for pid in /proc/[0-9]*; do
		pid=${pid#/proc/}
		if ours "$pid"; then return 0; fi
	done
	pid=
	return 1
}

# within SCRIPT runs other commands in the directory.
within() { mkdir -p "$dir"; enter; eval "$1"; }

# probe prints load, processors, kind of machine and free MiB; the directory; the address that ssh reached; the host's own addresses.
probe() {
	[ "$(uname -s)" = Linux ] || fail "runs $(uname -s), not Linux"
	for program in tar gzip sha256sum readlink; do command -v $program >/dev/null || fail "$program is not installed there"; done
	on=$dir
	while [ ! -d "$on" ]; do on=$(dirname "$on"); done
	set -- $(df -Pk "$on" | tail -n 1)
	echo "$(cut -d ' ' -f 1 /proc/loadavg) $(nproc) $(uname -m) $(($4 / 1024))"
	echo "$dir"
	set -- ${SSH_CONNECTION:-}
	echo "${3:-}"
	hostname -I 2>/dev/null || true
}

# take reads lines "SHA256 MODE NAME" up to an empty one, prints the names of files that are absent or differ, and reads those, as a
# compressed archive. All of them are replaced when all have come.
take() {
	only deploy
	new=
	while read -r sum mode name && [ -n "$sum" ]; do
		if [ "$(sha256sum 2>/dev/null <"$name")" = "$sum  -" ]; then chmod "$mode" "$name"; else new="$new $name"; fi
	done
	echo "$new"
	[ -n "$new" ] || return 0
	trap 'rm -rf "$here/incoming"' EXIT
	rm -rf incoming
	mkdir incoming
	tar -xzf - -C incoming --no-same-owner
	for name in $new; do mv -f "incoming/$name" "$name"; done
}

# deploy FRESH takes the files of a node, deletes data and logs of before if FRESH is true, and prints what else is to be said.
deploy() {
	mkdir -p "$dir"
	enter
	[ "$1" = false ] || ! find_node || fail "a node runs, process $pid: stop it before -fresh"
	take
	[ "$1" = false ] || [ ! -e data ] || { rm -rf data logs node.out; printf '; data and logs of before are deleted'; }
	[ -z "$new" ] || ! find_node || printf '; runs, and takes them at its next start'
}

# start SECONDS starts the node in its own session and waits until it answers. The node writes its own pid, whoever forks in between.
# Descriptor 9 is the lock, which the node must not hold.
start() {
	enter
	[ -x proxima ] && [ -f node.toml ] || fail "nothing is deployed in $here"
	only start
	if find_node; then echo "runs already, process $pid"; return; fi
	detach=setsid
	command -v setsid >/dev/null || detach=nohup
	# shellcheck disable=SC2016
	$detach sh -c 'echo $$ >pid.new && mv pid.new pid && exec ./proxima node -quiet -config node.toml' >>node.out 2>&1 </dev/null 9>&- &
	child=$!
	tries=$(($1 * 5))
	until ./proxima status -data data >/dev/null 2>&1; do
		if ! kill -0 $child 2>/dev/null && ! find_node; then
			code=0
			wait $child || code=$?
			fail "ended at once with code $code: $(tail -n 1 node.out)"
		fi
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "runs, but does not answer within $1 s: $(tail -n 1 node.out)"
		sleep 0.2
	done
	echo "started, process $(cat pid)"
}

# stop SECONDS ends the node, by force if it does not end in time.
stop() {
	cd "$dir" 2>/dev/null || { echo "nothing is deployed"; return; }
	here=$(pwd -P)
	find_node || { rm -f pid; echo "did not run"; return; }
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
	echo "$how"
}

# status prints the state of the node, and below it what the node says or, if it has ended, the last line of its log.
status() {
	cd "$dir" 2>/dev/null && [ -x proxima ] || { echo absent; return; }
	here=$(pwd -P)
	if ! find_node; then
		echo stopped
		[ ! -f logs/node.jsonl ] || tail -n 1 logs/node.jsonl
	elif text=$(./proxima status -data data -json 2>&1); then printf 'running\n%s\n' "$text"
	else printf 'mute\n%s\n' "$text"; fi
}

# collect PATTERN... prints the node's identity, and lines "SIZE SECONDS NAME" of the logs and what fits the patterns, up to the name ".". Then it reads
# lines "SIZE FILTER NAME", and answers each with the length of what the filter makes of the file, and with that. Hard links hold still
# what a node may rotate meanwhile.
collect() {
	enter
	[ -d logs ] || fail "there are no logs: the node was never started"
	only collect
	trap 'rm -rf "$here/.collect"' EXIT
	trap 'exit 1' HUP INT TERM PIPE
	tries=20
	until rm -rf .collect && mkdir .collect && before=$(ls logs) && cp -rl logs .collect 2>/dev/null && [ "$before" = "$(ls logs)" ]; do
		tries=$((tries - 1))
		[ $tries -gt 0 ] || fail "logs are rotated too fast"
	done
	cat data/node.json 2>/dev/null || echo
	(cd .collect && stat -c '%s %Y %n' logs/*.jsonl 2>/dev/null) || true
	# shellcheck disable=SC2048,SC2086
	stat -c '%s %Y %n' $* 2>/dev/null || true
	echo 0 0 .
	while read -r size filter name; do
		from=$name
		[ ! -e ".collect/$name" ] || from=.collect/$name
		head -c "$size" "$from" | "$filter" >.collect/sent
		wc -c <.collect/sent
		cat .collect/sent
	done
}

"$@"
