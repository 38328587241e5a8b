#!/usr/bin/env bash
# Chooses the least loaded of the hosts that answer, and splits them into equal sets, which can run the same experiment
# side by side: some sets may then be spoilt by machines that fail, and enough remain.
#
#   scripts/select.sh -hosts ALL -need 10 -take 50 -out DIR     50 hosts: 5 sets of 10
#   scripts/select.sh -hosts ALL -need 10 -sets 3 -out DIR      30 hosts: 3 sets of 10
#   scripts/select.sh -hosts ALL -need 10 -sets 3 -take 50 ...  48 hosts: 3 sets of 16, each with hosts to spare
#
# Writes DIR/set-1.hosts and so on, lists of hosts for the other scripts, and DIR/report.tsv with a line a host. The load
# is that of the last minute divided by the processors; the sets' loads are balanced. The same loads give the same sets.
# Fewer sets than asked are made where too few hosts answer (1); none is 4.
#
#   -need N    hosts a set needs
#   -sets K    sets; as many as the hosts taken are enough for, if only -take is given
#   -take M    hosts in all; sets times need, if only -sets is given
#   -out DIR   where the sets go
#   -free MIB  leave out hosts with less free disk, in MiB (1024)

# shellcheck source-path=SCRIPTDIR source=lib/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/hosts.sh"

flag+=([need]='' [sets]='' [take]='' [out]='' [free]=1024)
parse "$@"
number need 1 100000
number free 0 100000000
[ -n "${flag[out]}" ] || wrong "-out is missing"
[ -n "${flag[sets]}${flag[take]}" ] || wrong "give -sets or -take"
: "${flag[take]:=$((flag[need] * ${flag[sets]:-0}))}"
number take 1 100000
: "${flag[sets]:=$((flag[take] / flag[need]))}"
number sets 1 100000
((flag[take] >= flag[sets] * flag[need])) || wrong "-take ${flag[take]} is less than ${flag[sets]} sets of ${flag[need]}"

# shellcheck disable=SC2016
probe='read -r load _ </proc/loadavg
cores=$(nproc)
while [ ! -d "$dir" ]; do dir=$(dirname "$dir"); done
free=$(df -Pk "$dir" | awk "NR == 2 { print int(\$4 / 1024) }")
[ "$free" -ge "$1" ] || fail "only $free MiB are free in $dir"
echo "$load $cores $free"'
# shellcheck disable=SC2317 # each_host calls it
look() { remote 60 "$1" "$probe" "${flag[free]}"; }

begin
each_host look failed "${!names[@]}"

# index, load a processor, and what the host said; the least loaded first, in the order of the list where equal.
for i in $(good); do
	read -r load cores free <"$work/$i.text"
	awk -v i="$i" -v load="$load" -v cores="$cores" -v free="$free" 'BEGIN { printf "%.4f %d %.2f %d %d\n", load / cores, i, load, cores, free }'
done | sort -k1,1n -k2,2n >"$work/sorted"
answered=$(wc -l <"$work/sorted")
sets=${flag[sets]}
((sets * flag[need] <= answered)) || sets=$((answered / flag[need]))
take=$((flag[take] < answered ? flag[take] : answered))
size=$((sets > 0 ? take / sets : 0))

# The most loaded first, each into the set with the least load that has room.
head -n $((size * sets)) "$work/sorted" | sort -k1,1nr -k2,2n | awk -v sets="$sets" -v size="$size" '{
	best = 0
	for (s = 1; s <= sets; s++)
		if (n[s] < size && (!best || sum[s] < sum[best] - 1e-9 || (sum[s] < sum[best] + 1e-9 && n[s] < n[best]))) best = s
	sum[best] += $1; n[best]++
	print best, $0
}' | sort -k1,1n -k2,2n -k3,3n >"$work/dealt"

mkdir -p "${flag[out]}"
declare -A set_of=()
while read -r s _ i _; do
	set_of[$i]=$s
	printf '%s\n' "${lines[i]}" >>"$work/set-$s.hosts"
done <"$work/dealt"
rm -f -- "${flag[out]}"/set-*.hosts
for ((s = 1; s <= sets; s++)); do mv -- "$work/set-$s.hosts" "${flag[out]}/"; done
{
	printf 'host\tresult\tload\tprocessors\tfree_mib\tset\n'
	for i in "${!names[@]}"; do
		load='' cores='' free=''
		[ "$(result "$i")" != ok ] || read -r load cores free <"$work/$i.text"
		printf '%s\t%s\t%s\t%s\t%s\t%s\n' "${names[i]}" "$(result "$i")" "$load" "$cores" "$free" "${set_of[$i]:-}"
	done
} >"$work/report.tsv"
mv -- "$work/report.tsv" "${flag[out]}/"

awk '{ n[$1]++; sum[$1] += $2; if ($2 > max[$1]) max[$1] = $2; if ($1 > k) k = $1 }
	END { for (s = 1; s <= k; s++) printf "set-%d: %d hosts, load a processor %.2f on average, %.2f at most\n", s, n[s], sum[s] / n[s], max[s] }' "$work/dealt"
printf '%d of %d hosts answered, %d taken in %d of %d sets, in %s\n' "$answered" "${#names[@]}" $((size * sets)) "$sets" "${flag[sets]}" "${flag[out]}"
((sets > 0)) || exit 4
((sets == flag[sets] && size * sets >= flag[sets] * flag[need])) || exit 1
