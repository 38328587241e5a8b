# shellcheck shell=bash
# What the scripts for nodes on real machines share: flags, the list of hosts, calls over ssh, many hosts at once, results.
# It is sourced. Scripts fill the associative array flag with their flags and defaults before they call parse.
#
# Exit codes of all scripts: 0 done on all hosts, 1 not on all, 2 wrong usage or list of hosts, 3 a program is missing
# here or cannot be built, 4 done on no host, 130 stopped by Ctrl-C.

set -euo pipefail
export LC_ALL=C

# Flags that every script takes.
declare -A flag=([hosts]='' [dir]=proxima [jobs]=32 [timeout]=10 [F]="${SSH_CONFIG:-}")
switches=' '
common_help='Flags for all of these scripts:
  -hosts FILE    the list: [USER@]HOST[:PORT] [ADDRESS-FOR-PEERS] a line, # begins a comment
  -dir DIR       directory on each host, below its home if it does not begin with / (proxima)
  -jobs N        hosts worked on at once (32)
  -timeout S     seconds a connection may take (10)
  -F FILE        ssh configuration (the environment SSH_CONFIG, else that of ssh itself)
Exit codes: 0 done on all hosts, 1 not on all, 2 wrong usage or list, 3 a program is missing here, 4 done on no host.'

# The hosts, by index: as named in results and folders, for ssh, and the address for peers ("" if the list has none).
names=() targets=() ports=() addresses=() lines=()
declare -A running=() # process -> index
work=

die() { local code=$1; shift; printf '%s: %s\n' "${0##*/}" "$*" >&2; exit "$code"; }
wrong() { die 2 "$* (${0##*/} -h helps)"; }
need_program() { command -v "$1" >/dev/null || die 3 "$1 is not installed here"; }

# usage prints the comment that opens the script.
usage() { sed -n '2,/^$/s/^# \{0,1\}//p' "$0"; printf '%s\n' "$common_help"; }

# parse reads flags into the array flag. Those in $switches take no value.
parse() {
	local name
	while (($#)); do
		case $1 in -h | -help | --help) usage; exit 0 ;; esac
		[[ $1 =~ ^--?([A-Za-z]+)(=(.*))?$ ]] || wrong "what is $1?"
		name=${BASH_REMATCH[1]}
		[[ -v "flag[$name]" ]] || wrong "there is no flag $1"
		if [[ $switches == *" $name "* ]]; then
			[ -z "${BASH_REMATCH[2]}" ] || wrong "-$name takes no value"
			flag[$name]=1
		elif [ -n "${BASH_REMATCH[2]}" ]; then
			flag[$name]=${BASH_REMATCH[3]}
		else
			(($# > 1)) || wrong "-$name takes a value"
			flag[$name]=$2
			shift
		fi
		shift
	done
	number jobs 1 1000
	number timeout 1 600
	[ -z "${flag[F]}" ] || [ -r "${flag[F]}" ] || wrong "-F: cannot read ${flag[F]}"
	[[ ${flag[dir]} =~ ^[A-Za-z0-9._/@~+][A-Za-z0-9._/@~+\ -]*$ && ${flag[dir]} != / ]] || wrong "-dir: cannot be ${flag[dir]}"
	flag[dir]=${flag[dir]#\~/}
}

number() {
	if ! [[ ${flag[$1]} =~ ^[0-9]{1,9}$ ]] || ((10#${flag[$1]} < $2 || 10#${flag[$1]} > $3)); then
		wrong "-$1: ${flag[$1]:-nothing} is not a number between $2 and $3"
	fi
	flag[$1]=$((10#${flag[$1]}))
}

# is_address says whether it is an IPv4 or IPv6 address, roughly: ssh and the node look closer.
is_address() { [[ $1 =~ ^[0-9]{1,3}(\.[0-9]{1,3}){3}$ || $1 =~ ^[0-9A-Fa-f:]*:[0-9A-Fa-f:.]*$ ]]; }

# read_hosts reads the list. A host that stands there twice would be worked on twice at once: an error.
read_hosts() {
	local file=${flag[hosts]} text line rest where address user name port n=0
	local -A seen=()
	[ -n "$file" ] || wrong "-hosts is missing"
	[ -r "$file" ] || wrong "-hosts: cannot read $file"
	while IFS= read -r text || [ -n "$text" ]; do
		n=$((n + 1))
		line=${text%%#*} line=${line//$'\r'/}
		read -r where address rest <<<"$line" || true
		[ -n "$where" ] || continue
		[[ $where =~ ^([A-Za-z0-9._][A-Za-z0-9._-]*@)?(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*)(:([0-9]{1,5}))?$ ]] ||
			wrong "$file:$n: $where is not [USER@]HOST[:PORT]"
		user=${BASH_REMATCH[1]} name=${BASH_REMATCH[2]} port=${BASH_REMATCH[4]}
		[ -z "$rest" ] || wrong "$file:$n: what is $rest?"
		[ -z "$address" ] || is_address "$address" || wrong "$file:$n: $address is not an IP address"
		name=${name#\[} name=${name%\]}
		targets+=("$user$name") ports+=("$port") addresses+=("$address") lines+=("$where${address:+ $address}")
		name+=${port:+_$port}
		[ -z "${seen[$name]:-}" ] || wrong "$file:$n: $name stands in line ${seen[$name]}, too"
		seen[$name]=$n
		names+=("$name")
	done <"$file"
	((${#names[@]})) || wrong "$file names no host"
}

# begin makes what the work needs and sees that an end of any kind leaves nothing behind here.
begin() {
	((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)) || die 3 "bash 5.1 or later is needed, this is $BASH_VERSION"
	need_program ssh
	need_program timeout
	read_hosts
	work=$(mktemp -d)
	trap finish EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

finish() {
	local code=$? pid tries=40
	local -A groups=()
	trap '' HUP INT TERM
	# Each job leads a process group, so that its ssh ends with it. The last may not stand in running yet; and who has just
	# begun may be deaf to the signal, or be missed by it: bash holds it back while it forks. Hence again, until none is left.
	for pid in "${!running[@]}" $(jobs -pr); do groups[$pid]=1; done
	while ((${#groups[@]} && tries--)); do
		for pid in "${!groups[@]}"; do kill -TERM -- "-$pid" || unset "groups[$pid]"; done
		sleep 0.05
	done 2>/dev/null
	rm -rf -- "$work"
	exit "$code"
}

quote() { printf "'%s'" "${1//\'/\'\\\'\'}"; }

# What opens each script that runs on a host: a POSIX shell on Linux with coreutils. Single quotes: it expands there.
# shellcheck disable=SC2016
prelude='set -eu; umask 077; LC_ALL=C; export LC_ALL
fail() { echo "$*" >&2; exit 1; }
case $1 in /*) dir=$1 ;; *) dir=$HOME/$1 ;; esac; shift
enter() { cd "$dir" 2>/dev/null || fail "nothing is deployed in $dir"; here=$(pwd -P); }
ours() { # is process $1 a node that runs here?
	[ "/proc/$1/cwd" -ef . ] || return 1
	case $(readlink "/proc/$1/exe" 2>/dev/null) in "$here"/proxima | "$here/proxima (deleted)") ;; *) return 1 ;; esac
}
find_node() { # finds pid, by the pid file or, where that is lost, among all processes
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
only() { # only NAME waits for the lock: one at a time here
	command -v flock >/dev/null || return 0
	exec 9>"$1.lock"
	flock -w 10 9 || fail "another $1 is under way"
}
'

# remote SECONDS INDEX SCRIPT [WORD...] runs a script on a host; stdin and stdout are its own. Nothing secret may be in the
# script or the words, which can be seen in the list of processes. 255: ssh failed; 124: it took longer.
remote() {
	local limit=$1 i=$2 command word
	command="sh -c $(quote "$prelude$3") sh $(quote "${flag[dir]}")"
	shift 3
	for word; do command+=" $(quote "$word")"; done
	timeout --foreground -k 5 "$limit" ssh ${flag[F]:+-F "${flag[F]}"} -T -a -x -o BatchMode=yes -o ConnectTimeout="${flag[timeout]}" \
		-o ConnectionAttempts=1 -o ServerAliveInterval=5 -o ServerAliveCountMax=3 -o LogLevel=ERROR \
		-o ClearAllForwardings=yes ${ports[i]:+-p "${ports[i]}"} -- "${targets[i]}" "$command"
}

# each_host FUNCTION WHEN INDEX... calls FUNCTION INDEX for each host, at most -jobs at once. What it prints last to stdout is
# the result, what it prints last to stderr the reason of a failure; both stay in $work. WHEN says which results are
# shown as they come: all, failed or none.
each_host() {
	local function=$1 when=$2 i
	shift 2
	set -m # a process group each
	for i; do
		((${#running[@]} < flag[jobs])) || reap
		one "$function" "$when" "$i" </dev/null &
		running[$!]=$i
	done
	while ((${#running[@]})); do reap; done
	set +m
}

reap() {
	local ended=
	wait -n -p ended "${!running[@]}" || true
	[ -z "$ended" ] || unset "running[$ended]"
}

one() {
	local function=$1 when=$2 i=$3 code=0 word=ok text
	trap - EXIT HUP INT TERM
	rm -f -- "$work/$i.word" # of an earlier function: who is killed has not succeeded
	"$function" "$i" >"$work/$i.out" 2>"$work/$i.err" || code=$?
	if [ $code = 0 ]; then text=$(tail -n 1 "$work/$i.out"); else text=$(grep -v '^ *$' "$work/$i.err" | tail -n 1 || true); fi
	case $code in
		0) ;;
		124 | 137) word=failed text="took too long; ${text:-it said nothing}" ;;
		255)
			case $text in
				*'Permission denied'* | *'Too many authentication'*) word=refused ;;
				*'Host key verification failed'* | *'host key'*) word=unknown ;;
				*) word=silent ;;
			esac
			;;
		*) word=failed text=${text:-"code $code"} ;;
	esac
	printf '%s\n' "${text//[[:cntrl:]]/ }" >"$work/$i.text" # a terminal is not a host's to control
	printf '%s\n' "$word" >"$work/$i.word"
	case $when in
		all) show "$i" ;;
		failed) [ $code = 0 ] || show "$i" ;;
	esac
}

show() { printf '%-8s %-24s %s\n' "$(result "$1")" "${names[$1]}" "$(<"$work/$1.text")"; }

# result is ok, failed, silent (does not answer), refused (our key) or unknown (its key).
result() { cat "$work/$1.word" 2>/dev/null || echo failed; }

# good lists the indices of the hosts where the last function succeeded.
good() {
	local i
	for i in "${!names[@]}"; do [ "$(result "$i")" != ok ] || echo "$i"; done
}

# conclude VERB prints the sum of all and ends with the code that says it.
conclude() {
	local i word done=0 total=${#names[@]} text=
	local -A lists=()
	for i in "${!names[@]}"; do
		word=$(result "$i")
		if [ "$word" = ok ]; then done=$((done + 1)); else lists[$word]+=" ${names[i]}"; fi
	done
	for word in failed silent refused unknown; do
		[ -z "${lists[$word]:-}" ] || text+="; $word:${lists[$word]}"
	done
	printf '%d of %d hosts %s%s\n' "$done" "$total" "$1" "$text"
	((done < total)) || exit 0
	((done == 0)) || exit 1
	exit 4
}
