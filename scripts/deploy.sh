#!/usr/bin/env bash
# Puts a node on each host: the program, its configuration, its seeds and the secret of the overlay. What is there already
# and has not changed is not copied again; a node that runs goes on, and takes the new files at its next start.
#
#   scripts/deploy.sh -hosts FILE -seeds MASTER [-config BASE.toml] [-sample 50]
#
# The program is built once, without C, and checked by its SHA-256. BASE.toml is the configuration common to all; what is
# each node's own is put over it: node.data, crawl.seeds, peer.listen, peer.advertise, peer.secret, member.bind,
# member.advertise, member.join, termination.expected_nodes, output.logs. A node's seeds are a random sample of the master list,
# its peers are the hosts that answer now. Their addresses are those that ssh reached, or those that the list states.
# What was made stays in STATE: the secret (nobody else may read it), programs, nodes/HOST with configuration and seeds.
#
#   -seeds FILE     master list, a URL a line; empty lines and # comments are left out
#   -sample N       seeds of a node; 0 gives all to each (50)
#   -seed S         random seed of the samples (1)
#   -config FILE    configuration of all nodes; the defaults where absent (proxima config prints them)
#   -run NAME       name of the crawl in the logs, node.run; that of the configuration where absent
#   -peers N        peers that a node joins, at most; one that answers is enough (16)
#   -port P         port of the peer protocol (7947)
#   -gossip P       port of the gossip, TCP and UDP (7946)
#   -geo FILE       location database, copied to the hosts: geo.database
#   -secret FILE    secret of the overlay (STATE/secret, made with proxima keygen where absent)
#   -state DIR      where what is made stays (beside the list of hosts: FILE.deploy)
#   -proxima FILE   a program that is built already, for this machine and for all hosts; none is built then
#   -fresh          delete data and logs of earlier crawls on the hosts; refused where a node runs

# shellcheck source-path=SCRIPTDIR source=lib/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/hosts.sh"
# shellcheck source-path=SCRIPTDIR source=lib/config.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/config.sh"

switches=' fresh '
flag+=([seeds]='' [sample]=50 [seed]=1 [config]='' [run]='' [peers]=16 [port]=7947 [gossip]=7946 [geo]='' [secret]='' [state]=''
	[proxima]='' [fresh]='')
parse "$@"
number sample 0 100000000
number seed 0 999999999
number peers 1 1000
number port 1 65535
number gossip 1 65535
((flag[port] != flag[gossip])) || wrong "-port and -gossip are the same"
[ -n "${flag[seeds]}" ] || wrong "-seeds is missing"
for name in seeds config geo proxima; do
	[ -z "${flag[$name]}" ] || [ -r "${flag[$name]}" ] || wrong "-$name: cannot read ${flag[$name]}"
done
[[ ${flag[run]} =~ ^[A-Za-z0-9._-]{0,100}$ ]] || wrong "-run: letters, digits, dots, hyphens and underscores, 100 at most"

# Asks what must be known before anything is made: machine, address that ssh reached, whether -address is of this machine.
# shellcheck disable=SC2016
probe='[ "$(uname -s)" = Linux ] || fail "runs $(uname -s), not Linux"
for program in tar gzip sha256sum readlink; do command -v $program >/dev/null || fail "$program is not installed there"; done
address=$1
[ -n "$address" ] || { set -- ${SSH_CONNECTION:-}; address=${3:-}; }
[ -n "$address" ] || fail "it does not say which address it has: name one in the list of hosts"
bind=any
case "$address $(hostname -I 2>/dev/null || true) " in 127.* | ::1\ * | *\ "$address"\ *) bind=own ;; esac
echo "$(uname -m) ${address#::ffff:} $bind"'
# shellcheck disable=SC2317 # each_host calls it
look() { remote 60 "$1" "$probe" "${addresses[$1]}"; }

# Takes configuration, seeds and secret as a tar; says what changed of them.
# shellcheck disable=SC2016
place='mkdir -p "$dir"; cd "$dir"; here=$(pwd -P)
only deploy
if [ "$1" = fresh ] && find_node; then fail "a node runs, process $pid: stop it before -fresh"; fi
rm -rf incoming
mkdir incoming
tar -xf - -C incoming --no-same-owner
changed=
if [ "$1" = fresh ] && [ -e data ]; then rm -rf data logs node.out; changed=" (no data, no logs)"; fi
for file in incoming/*; do
	name=${file#incoming/}
	chmod 600 "$file"
	if [ "$(sha256sum <"$file")" = "$(sha256sum 2>/dev/null <"$name" || true)" ]; then chmod 600 "$name"; continue; fi
	mv -f "$file" "$name"
	changed="$changed $name"
done
rm -rf incoming
echo "$changed"'

# sum SHA NAME MODE: is the file there? take: the file comes, compressed.
# shellcheck disable=SC2016
sum='cd "$dir"; [ -f "$2" ] && [ "$(sha256sum <"$2" | cut -d " " -f 1)" = "$1" ] && chmod "$3" "$2" && echo same || echo other'
# shellcheck disable=SC2016
take='cd "$dir"
only copy
gzip -dc >"$2.new"
[ "$(sha256sum <"$2.new" | cut -d " " -f 1)" = "$1" ] || { rm -f "$2.new"; fail "$2 did not arrive whole"; }
chmod "$3" "$2.new"
mv -f "$2.new" "$2"'
# shellcheck disable=SC2016
later='enter; if find_node; then echo "; runs, and takes them at its next start"; fi'

# large INDEX FILE NAME MODE copies a large file if it is not there; its sum and its compressed form lie beside it here.
# shellcheck disable=SC2317
large() {
	local answer words
	words=("$(<"$2.sum")" "$3" "$4")
	answer=$(remote 120 "$1" "$sum" "${words[@]}" </dev/null) || return
	[ "$answer" != same ] || return 0
	remote 3600 "$1" "$take" "${words[@]}" <"$2.gz" >/dev/null || return
	printf ' %s' "$3"
}

# packed FILE makes them.
packed() {
	local s
	s=$(sha256sum <"$1" | cut -d ' ' -f 1)
	[ "$s" != "$(cat "$1.sum" 2>/dev/null)" ] || [ ! -s "$1.gz" ] || return 0
	rm -f -- "$1.sum"
	gzip -c "$1" >"$1.gz.new" && mv -- "$1.gz.new" "$1.gz" && printf '%s\n' "$s" >"$1.sum"
}

# list prints a TOML array of the lines read.
# shellcheck disable=SC2317
list() { sed 's/.*/"&"/' | paste -s -d , | sed 's/.*/[&]/'; }

# configure INDEX writes configuration and seeds of a node.
# shellcheck disable=SC2317
configure() {
	local i=$1 folder=$state/nodes/${names[$1]} bind=${address_of[$1]} join
	if [ "${bind_of[i]}" = any ]; then
		bind=0.0.0.0
		[[ ${address_of[i]} != *:* ]] || bind=::
	fi
	# The next in a ring, so that no part of the overlay is on its own, and others at random.
	join=$(for p in "${nodes[@]}"; do [ "$p" = "$i" ] || with_port "${address_of[p]}" "${flag[gossip]}"; echo; done | sed '/^$/d' |
		if ((${#nodes[@]} - 1 > flag[peers])); then
			with_port "${address_of[${next_of[i]}]}" "${flag[gossip]}"; echo
			((flag[peers] == 1)) || grep -vxF "$(with_port "${address_of[${next_of[i]}]}" "${flag[gossip]}")" |
				sample $((flag[peers] - 1)) "${flag[seed]} ${names[i]} peers"
		else cat; fi | list)
	mkdir -p "$folder" || return
	{
		printf '%s\t%s\t%s\n' node data '"data"'
		[ -z "${flag[run]}" ] || printf '%s\t%s\t"%s"\n' node run "${flag[run]}"
		printf '%s\t%s\t%s\n' crawl seeds '["seeds.txt"]' \
			peer listen "\"$(with_port "$bind" "${flag[port]}")\"" peer advertise "\"$(with_port "${address_of[i]}" "${flag[port]}")\"" \
			peer secret '"secret"' \
			member bind "\"$(with_port "$bind" "${flag[gossip]}")\"" member advertise "\"$(with_port "${address_of[i]}" "${flag[gossip]}")\"" \
			member join "${join:-[]}" termination expected_nodes "${#nodes[@]}" output logs '"logs"'
		[ -z "${flag[geo]}" ] || printf '%s\t%s\t%s\n' geo database '"geo.mmdb"'
	} >"$work/$i.keys"
	merge "${flag[config]:-/dev/null}" "$work/$i.keys" >"$folder/node.toml" || return
	"$here" config -check "$folder/node.toml" >/dev/null || return
	sample "${flag[sample]}" "${flag[seed]} ${names[i]} seeds" <"$work/master" >"$folder/seeds.txt"
}

# shellcheck disable=SC2317
deploy() {
	local i=$1 changed more
	configure "$i" || return 1
	changed=$(tar -cf - -C "$state/nodes/${names[i]}" node.toml seeds.txt -C "$work" secret | remote 120 "$i" "$place" "${flag[fresh]:+fresh}") || return
	more=$(large "$i" "${program_of[i]}" proxima 700) || return
	changed+=$more
	if [ -n "${flag[geo]}" ]; then
		more=$(large "$i" "$state/geo.mmdb" geo.mmdb 600) || return
		changed+=$more
	fi
	[ -n "$changed" ] || { echo "unchanged, as ${address_of[i]}"; return; }
	more=$(remote 60 "$i" "$later" </dev/null) || return
	echo "new:$changed, as ${address_of[i]}$more"
}

begin
need_program sha256sum
[ -n "${flag[proxima]}" ] || need_program go
sed -e 's/\r$//' -e 's/^[ \t]*//' -e '/^#/d' -e '/^$/d' "${flag[seeds]}" >"$work/master"
[ -s "$work/master" ] || wrong "-seeds: ${flag[seeds]} has no URL"

each_host look failed "${!names[@]}"
nodes=() address_of=() bind_of=() program_of=() next_of=()
declare -A arches=() owner=()
loopback=0
for i in $(good); do
	read -r machine address bind <"$work/$i.text"
	problem=
	[ -z "${owner[$address]:-}" ] || problem="has the address of ${owner[$address]}, $address: name others in the list of hosts"
	[ -z "$problem" ] || { printf 'failed\n' >"$work/$i.word"; printf '%s\n' "$problem" >"$work/$i.text"; show "$i"; continue; }
	owner[$address]=${names[i]}
	nodes+=("$i") address_of[i]=$address bind_of[i]=$bind program_of[i]=$(arch_of "$machine")
	case $address in 127.* | ::1) loopback=$((loopback + 1)) ;; esac
	arches[${program_of[i]}]=1
done
((${#nodes[@]})) || conclude "have a node"
((loopback == 0 || loopback == ${#nodes[@]})) || wrong "some hosts have a loopback address: name those for peers in the list of hosts"
for ((k = 0; k < ${#nodes[@]}; k++)); do next_of[nodes[k]]=${nodes[(k + 1) % ${#nodes[@]}]}; done

state=${flag[state]:-${flag[hosts]}.deploy}
mkdir -p "$state/bin"
state=$(cd "$state" && pwd)
if [ -n "${flag[proxima]}" ]; then
	here=$state/bin/proxima-given
	cmp -s "${flag[proxima]}" "$here" || { cp -- "${flag[proxima]}" "$here.new" && chmod 755 "$here.new" && mv -- "$here.new" "$here"; }
	packed "$here"
	for i in "${nodes[@]}"; do program_of[i]=$here; done
else
	here=$state/bin/proxima-$(go env GOHOSTOS)-$(go env GOHOSTARCH)
	build "$here" "$(go env GOHOSTOS)" "$(go env GOHOSTARCH)"
	for arch in "${!arches[@]}"; do
		[ "$state/bin/proxima-linux-$arch" = "$here" ] || build "$state/bin/proxima-linux-$arch" linux "$arch"
		packed "$state/bin/proxima-linux-$arch"
	done
	for i in "${nodes[@]}"; do program_of[i]=$state/bin/proxima-linux-${program_of[i]}; done
fi
if [ -n "${flag[geo]}" ]; then
	cmp -s "${flag[geo]}" "$state/geo.mmdb" || cp -- "${flag[geo]}" "$state/geo.mmdb"
	packed "$state/geo.mmdb"
fi
secret=${flag[secret]:-$state/secret}
[ -e "$secret" ] || "$here" keygen "$secret" >/dev/null || die 3 "no secret could be made"
(umask 077 && cp -- "$secret" "$work/secret")

each_host deploy all "${nodes[@]}"
conclude "have a node"
