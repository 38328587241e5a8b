# shellcheck shell=bash
# What deploy.sh makes on this machine: programs, the configuration of each node, samples of seeds and of peers. Sourced.

# merge BASE KEYS prints the TOML file BASE with the keys of KEYS (lines: section, key, value, with tabs between them) in
# place of its own. Keys of those sections written any other way (dotted, inline) make a file that does not pass the check.
merge() {
	awk '
		function depth(s) { # how many brackets the line leaves open
			gsub(/"([^"\\]|\\.)*"/, "", s); gsub(/\047[^\047]*\047/, "", s); sub(/#.*/, "", s)
			return gsub(/[[{]/, "", s) - gsub(/[]}]/, "", s)
		}
		function give(section,   i) {
			for (i = 1; i <= n; i++) if (sections[i] == section && !given[i]) { print keys[i] " = " values[i]; given[i] = 1 }
		}
		NR == FNR { split($0, f, "\t"); sections[++n] = f[1]; keys[n] = f[2]; values[n] = f[3]; mine[f[1], f[2]] = 1; next }
		/"""/ || /\047\047\047/ { print FILENAME ":" FNR ": strings of several lines cannot be merged" >"/dev/stderr"; bad = 1; exit 1 }
		open > 0 { open += depth($0); if (!dropped) print; next }
		/^[ \t]*\[/ {
			section = $0; sub(/^[ \t]*\[[ \t]*/, "", section); sub(/[ \t]*\].*/, "", section)
			print; give(section); next
		}
		/^[ \t]*["\047]?[A-Za-z0-9_-]+["\047]?[ \t]*=/ {
			key = $0; sub(/[ \t]*=.*/, "", key); gsub(/[ \t"\047]/, "", key)
			open = depth($0); dropped = (section, key) in mine
			if (!dropped) print
			next
		}
		{ print }
		END {
			if (bad) exit 1
			for (i = 1; i <= n; i++) if (!given[i]) { print "\n[" sections[i] "]"; give(sections[i]) }
		}' "$2" "$1"
}

# sample N SEED prints N of the lines read, drawn at random, in their order; the same ones for the same seed, whatever awk
# it is. 0 prints all. The generator is that of Park and Miller (1988).
sample() {
	awk -v n="$1" -v x="$(printf %s "$2" | cksum | cut -d ' ' -f 1)" '
		function random(m) { x = (x * 16807) % 2147483647; return x % m }
		{ line[NR] = $0; at[NR] = NR }
		END {
			x = x % 2147483646 + 1
			for (i = 1; i <= 10; i++) random(2) # near seeds begin near one another
			if (n == 0 || n > NR) n = NR
			for (i = 1; i <= n; i++) { j = i + random(NR - i + 1); t = at[i]; at[i] = at[j]; at[j] = t; chosen[at[i]] = 1 }
			for (i = 1; i <= NR; i++) if (i in chosen) print line[i]
		}'
}

# arch_of MACHINE prints the GOARCH of what uname -m says.
arch_of() {
	case $1 in
		x86_64) echo amd64 ;;
		aarch64) echo arm64 ;;
		i?86) echo 386 ;;
		armv[67]*) echo arm ;;
		*) echo "$1" ;;
	esac
}

# build FILE OS ARCH builds proxima without C, so that it runs whatever libraries a host has.
build() {
	printf 'building proxima for %s/%s\n' "$2" "$3"
	(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && CGO_ENABLED=0 GOOS=$2 GOARCH=$3 go build -trimpath -o "$1" ./cmd/proxima) </dev/null ||
		die 3 "proxima cannot be built for $2/$3"
}

# with_port joins address and port.
with_port() { if [[ $1 == *:* ]]; then printf '[%s]:%s' "$1" "$2"; else printf '%s:%s' "$1" "$2"; fi; }
