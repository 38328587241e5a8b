#!/usr/bin/env bash
# Fetches the measured data that some tests and `proxima simulate -goals` and `-ablation` use, from its public sources. Nothing else
# needs it: tests say in one line what they leave out without it.
#
#   scripts/data.sh            into ./data, where tests and commands look
#   scripts/data.sh DIR        into another folder: PROXIMA_DATA=DIR for tests, -data DIR for commands
#
# Sources are pinned to commits, and what is made of them is checked by SHA-256: what differs is not kept. What is there already is not
# fetched again. BASE=URL takes another place with the same paths (OWNER/REPOSITORY/COMMIT/PATH). Needs curl, gzip, awk, sha256sum.
#
#   planetlab      round trips among 490 nodes, 6 snapshots    uofa-rzhu3/NetLatency-Data, MIT
#   seattle        round trips among 99 phones and homes       the same
#   wondernetwork  round trips among 106 cities, 2020          GeoDecConsensus/geodec, Apache-2.0; the measurements are WonderNetwork's
#   robots         expectations of robots.txt                  google/robotstxt-spec-test, Apache-2.0
set -euo pipefail

case ${1-} in -*) sed -n '2,/^set/s/^# \{0,1\}//p' "$0"; exit 2 ;; esac
base=${BASE:-https://raw.githubusercontent.com}
out=${1:-$(dirname "$0")/../data}
mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=

latency=uofa-rzhu3/NetLatency-Data/a5845579654bf3b7f191d2697c0de24ec485b8e9
geodec=GeoDecConsensus/geodec/b78c478e8754d3cd9ba2918874535ec172799798
robots=google/robotstxt-spec-test/552ade5

# get PATH writes a file of the source to stdout.
get() { curl --fail --silent --show-error --location --retry 3 --max-time 300 "$base/$1"; }

# keep NAME SUM COMMAND... keeps what a command writes as a file of the folder if its text has that sum; compressed if the name says so.
keep() {
	local name=$1 sum=$2 file="$out/$1" got
	shift 2
	[ ! -e "$file" ] || return 0
	if ! "$@" >"$work/text"; then
		echo "$name: cannot be fetched" >&2
		failed=yes
		return 0
	fi
	got=$(sha256sum <"$work/text" | cut -d' ' -f1)
	if [ "$got" != "$sum" ]; then
		echo "$name: has the SHA-256 $got, not $sum; not kept" >&2
		failed=yes
		return 0
	fi
	mkdir -p "$(dirname "$file")"
	case $name in *.gz) gzip -n <"$work/text" >"$file.part" ;; *) cp "$work/text" "$file.part" ;; esac
	mv "$file.part" "$file"
	echo "$name"
}

# matrix PATH... is square matrices with tabs between the numbers, whatever separates them at the source.
matrix() {
	local path
	for path; do
		get "$path" | tr -d '\r' | tr ', ' '\t\t' | awk 1 || return
	done
}

# The cities that are used, by their ids.
cities='2 6 9 13 15 20 21 22 25 26 27 28 30 35 42 43 44 47 48 53 55 56 57 59 62 63 65 66 70 72 73 74 77 79 82 85 86 89 93 94 95 
97 99 101 106 107 111 113 115 116 117 121 123 133 135 137 143 144 147 148 149 153 154 163 164 165 166 174 175 176 181 
185 188 191 192 193 197 198 200 201 204 205 206 209 210 212 213 214 220 222 225 230 232 233 236 238 239 242 243 246 247 
248 259 260 262 291 '

# places is a table of these cities, trips one of the round trips among them.
places() {
	echo id,city,country,latitude,longitude
	get "$geodec/rundata/servers.csv" | tr -d '\r' | awk -F, -v list="$cities" '
		function decimal(n) { return n ~ /\./ ? n : n ".0" }
		BEGIN { split(list, ids, /[ \n]+/); for (i in ids) used[ids[i]] = 1 }
		$1 in used { print $1 "," $2 "," $6 "," decimal($9) "," decimal($10) }' | sort -t, -k1,1n
}
trips() {
	echo source,destination,min_ms,avg_ms,max_ms,mdev_ms
	get "$geodec/rundata/ping_grouped.csv" | tr -d '\r' | awk -F, -v list="$cities" '
		BEGIN { split(list, ids, /[ \n]+/); for (i in ids) used[ids[i]] = 1 }
		$1 in used && $2 in used'
}

while read -r n sum; do
	keep "planetlab/PlanetLabData_$n.gz" "$sum" matrix "$latency/PlanetLab/PlanetLabData_$n"
done <<'SUMS'
1 dd7fd6bb6917c55590e547d7c00a41f93175d4bda68ef0c81c8f372086165afc
2 1bf8fef55a0920cc48bdde073ff6520132ac874cfccd6bdad7decb80e84935a2
3 6ead703d05d58a0a3913c8468c5c9ec6d07c550ee460a733a248ce6bd710fd92
4 c3eef5505ce68a1ec0f59d012c0a7b150a5603ef533560991a95cab33132a220
5 ac1de5e5db1264f5bf54b279e346bbc9198dca9d0ce648e9a0b7dff5d4f5a1fd
6 a80ef6ccf326765c426ac0583db3e8856ce1b8ede7c604d3c3d5f9f8734e9335
SUMS
mapfile -t snapshots < <(seq -f "$latency/Seattle/SeattleData_%.0f" 200)
keep seattle/first200.txt.gz 3ea3d43524d6a3d1b6c4f7a40ef17a217f70b5428cd716358244a16a3266074c matrix "${snapshots[@]}"
keep wondernetwork/cities.csv 8dd6e88426bcd90f7170866a3cc71a097e2b993c064e01e9d3d644f261927ba8 places
keep wondernetwork/rtt.csv.gz ec24ec3df0b7bb55c29237e22aca582126686fc6a1891e6f0e9b8aa5adda6190 trips
while read -r sum name; do
	keep "robots/$name" "$sum" get "$robots/src/main/resources/CTC/correctness/$name"
done <<'SUMS'
7a0cdece4264fc37ce63722822308bc8e86b37727399c54ba59e0884a2205c28  BOM-characters.textproto
97c64d8ebeba9734e3277d4c3136a518fb095594bf199dbdb5c67166d289909f  accepted-mistakes.textproto
03ebe27b88a6a330c3650ecb99854489ececfa8a5d5d7417a2be05859ef5009d  different-line-endings.textproto
1315dc84eb97f30817f541d100d0b2e5af2fc5a94e01d6b94b3139277843f2f5  directives-case-insensitivity.textproto
79de5b6d96eab2b1e09fe54e727c996ef8591aa34d64da9ebe54697c941f368c  empty-string.textproto
f385bbdab40977ba1dcd8465a0dcafdf22e9997cc33c4f47ecc1bf3a925b2c32  global-rules.textproto
e5332a139f02f9239e706ec086d1b182d31ad3b516f9556d82ec6bdb9387c50c  groups.textproto
b15479f1bd8d92bacf3e8945cb03ce4d2c595fc7d889be38e52222e9bba6e48f  index-page.textproto
340a0d31064907eb8a11af3a120013c0ea453bd5fb518edfaeacbfb93fb86a77  matching-path-values-1.textproto
8ddcfefb1797f5acda97ef352d350ffa41cc22366646265b27ac869b8ed1c5f6  matching-path-values-2.textproto
16dd26c78e4f5ad6b568b1247fdd3cf490841b862a5a32b2e1179acd6e8f1c20  most-specific-match.textproto
a30d3a65d6647a6daa257f49109bb1a8d975cd757356df54081bf1215398e411  non-ascii-paths.textproto
17abaf372ff539e610b9b51827bd1ed4c11e6029868013733f39cb4bcc637d50  order-of-precedence.textproto
09e0e0d15d9d4fd61bc264b79afb07ce184498bced76691baef1a5920cd31b42  special-characters.textproto
23903ce9a1314fe3c4ac0922c4a5320003067f1231d7c563a919d9b5a2228fe8  uri-case-sensitivity.textproto
c4bccdf7fa7bc4903d76039ac53da6bd7ae75a061bc5d21094ef24c941428f05  user-agent-name.textproto
SUMS
[ -z "$failed" ] || { echo "some data is missing in $out" >&2; exit 1; }
echo "all data is in $out"
