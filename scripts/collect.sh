#!/usr/bin/env bash
# Fetches the logs of all nodes into one folder, compressed on the hosts: OUT/HOST/logs/NAME.jsonl.gz and, rotated,
# NAME-000001.jsonl.gz and so on, as proxima compare OUT reads them; and OUT/HOST/node.out.gz, what the node printed.
#
#   scripts/collect.sh -hosts FILE -out OUT
#
# Files that are here and have not changed there are not fetched again, so the same command goes on where it broke off,
# and may be repeated while nodes run: rotated files that a node has deleted since (output.log_keep) stay here. A folder
# holds one crawl: a node with another id (deploy.sh -fresh) is refused. After stop.sh the logs are whole.
#
#   -out DIR   where the logs go

# shellcheck source-path=SCRIPTDIR source=lib/hosts.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib/hosts.sh"

flag+=([out]='')
parse "$@"
[ -n "${flag[out]}" ] || wrong "-out is missing"

# Sends "node ID", then for each file that is not in the list on stdin "file NAME SIZE MTIME BYTES" and these bytes of gzip,
# then "end COUNT". Hard links hold still what a node may rotate meanwhile. The current files come first: where it breaks
# off, lines may be missing, and none is there twice.
# shellcheck disable=SC2016
script='enter
[ -d logs ] || fail "there are no logs: the node was never started"
exec 9>collect.lock
command -v flock >/dev/null && { flock -n 9 || fail "another collect is under way"; }
trap "rm -rf \"\$here/.collect\"" EXIT
trap "exit 1" HUP INT TERM PIPE
have=$(cat)
tries=0
while :; do
	rm -rf .collect
	mkdir .collect
	before=$(ls logs)
	for name in $before; do case $name in *.jsonl) ln "logs/$name" ".collect/$name" 2>/dev/null || true ;; esac; done
	[ "$before" != "$(ls logs)" ] || break
	tries=$((tries + 1))
	[ $tries -lt 20 ] || fail "logs are rotated too fast"
done
[ ! -f node.out ] || ln node.out .collect/node.out
echo "node $(sed -n "s/.*\"node\":\"\([0-9a-f]*\)\".*/\1/p" data/node.json)"
cd .collect
count=0
for name in $(ls | grep -v -- "-[0-9]*\.jsonl$") $(ls | grep -- "-[0-9]*\.jsonl$"); do
	count=$((count + 1))
	set -- $(stat -c "%s %Y" "$name")
	case "
$have
" in *"
$name $1 $2
"*) continue ;; esac
	head -c "$1" "$name" | gzip -c >sent.gz
	echo "file $name $1 $2 $(wc -c <sent.gz)"
	cat sent.gz
	rm sent.gz
done
echo "end $count"'

# receive FOLDER reads that into OUT/HOST; why it failed goes to descriptor 3. The list of what is there, .collected, grows with
# each whole file.
# shellcheck disable=SC2317
receive() {
	local folder=$1 kind name size time bytes to came='' new=0 sum=0
	while read -r kind name size time bytes; do
		came=1
		case $kind in
			node)
				if [ -s "$folder/.node" ] && [ "$(<"$folder/.node")" != "$name" ]; then
					echo "$folder holds the logs of another node, $(<"$folder/.node"): choose another folder" >&3
					return 1
				fi
				printf '%s\n' "$name" >"$folder/.node"
				;;
			file)
				[[ $name =~ ^[a-z]+(-[0-9]+)?\.jsonl$|^node\.out$ && $bytes =~ ^[0-9]+$ ]] || { echo "it sent a file named $name" >&3; return 1; }
				to=$folder/logs/$name.gz
				[ "$name" != node.out ] || to=$folder/$name.gz
				head -c "$bytes" >"$folder/.part"
				if [ "$(wc -c <"$folder/.part")" != "$bytes" ] || ! gzip -t "$folder/.part" 2>/dev/null; then
					rm -f -- "$folder/.part"
					echo "broke off in $name; what came before it is kept" >&3
					return 1
				fi
				grep -v "^$name " "$folder/.collected" >"$folder/.collected.new" || true
				mv -- "$folder/.collected.new" "$folder/.collected" && mv -- "$folder/.part" "$to" || return 1
				printf '%s %s %s\n' "$name" "$size" "$time" >>"$folder/.collected"
				new=$((new + 1)) sum=$((sum + bytes))
				;;
			end)
				printf '%d files, %d of them new or longer, %d KiB fetched\n' "$name" "$new" $(((sum + 1023) / 1024))
				return 0
				;;
		esac
	done
	[ -z "$came" ] || echo "broke off; what came is kept" >&3
	return 1
}

# shellcheck disable=SC2317
collect() {
	local folder="${flag[out]}/${names[$1]}" name rest codes why said text
	mkdir -p "$folder/logs" || return 1
	# Only what is really here counts as fetched.
	touch "$folder/.collected"
	while read -r name rest; do
		[ ! -s "$folder/logs/$name.gz" ] && [ ! -s "$folder/$name.gz" ] || printf '%s %s\n' "$name" "$rest"
	done <"$folder/.collected" >"$folder/.collected.new"
	mv -- "$folder/.collected.new" "$folder/.collected"
	cp -- "$folder/.collected" "$work/$1.have"
	remote 86400 "$1" "$script" <"$work/$1.have" | receive "$folder" 3>"$work/$1.why"
	codes=("${PIPESTATUS[@]}")
	[ "${codes[*]}" != '0 0' ] || return 0
	why=$(<"$work/$1.why") said=$(grep -v '^ *$' "$work/$1.err" | tail -n 1)
	rmdir -- "$folder/logs" "$folder" 2>/dev/null || true
	# What ssh or the host said, if anything, explains what came of it.
	text=$why${why:+${said:+: }}$said
	printf '%s\n' "${text:-it sent nothing}" >&2
	[ "${codes[0]}" = 0 ] || return "${codes[0]}"
	return "${codes[1]}"
}

begin
mkdir -p "${flag[out]}"
each_host collect all "${!names[@]}"
conclude "are collected"
