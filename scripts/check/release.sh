#!/usr/bin/env bash
# Makes a release of the last commit twice, in two folders and under two umasks, and compares them byte by byte; then installs the package below a
# folder, crawls a page with it, upgrades, goes on, removes and purges, and once more as a service; builds the image and crawls a
# page in a container. Needs dpkg and root; says what else is missing.
# FRESH=1 compiles everything anew for the second release, which takes minutes.
set -euo pipefail
cd "$(dirname "$0")/../.."
command -v dpkg-deb >/dev/null || { echo "MISSING: dpkg-deb; the release was not checked" >&2; exit 0; }
dir=$(mktemp -d)
server=
trap '[ -z "$server" ] || kill "$server"; rm -rf "$dir"' EXIT
fail() { echo "$*" >&2; exit 1; }

arch=$(go env GOHOSTARCH)
scripts/build/release.sh "$dir/a" "linux/$arch"
mkdir "$dir/elsewhere"
if [ "${FRESH:-}" = 1 ]; then export GOCACHE=$dir/cache; fi
(
	umask 077
	git clone -q --shared . "$dir/elsewhere/src"
	"$dir/elsewhere/src/scripts/build/release.sh" "$dir/b" "linux/$arch" >/dev/null
)
(cd "$dir/b" && sha256sum -c --quiet "$dir/a/SHA256SUMS") || fail "two releases of one commit differ"
echo "two releases of one commit are the same bytes"

deb=$(echo "$dir"/a/proxima_*.deb)
version=$(dpkg-deb -f "$deb" Version)
grep -q '"purl": "pkg:golang/github.com/dgraph-io/badger/v4@' "$dir"/a/*.cdx.json || fail "the SBOM does not name badger"
[ "$(id -u)" = 0 ] || { echo "MISSING: root; the package was not installed" >&2; exit 0; }

# An older version to upgrade from: the same files.
dpkg-deb -R "$deb" "$dir/old"
sed -i 's/^Version: .*/Version: 0.0.1/' "$dir/old/DEBIAN/control"
dpkg-deb -Zgzip -b "$dir/old" "$dir/old.deb" >/dev/null

root=$dir/root
mkdir -p "$root"/var/lib/dpkg/{info,updates}
touch "$root"/var/lib/dpkg/{status,available}
debian() { dpkg --root="$root" --force-script-chrootless --force-confold --log=/dev/null "$@" >"$dir/dpkg.log" 2>&1 || { cat "$dir/dpkg.log" >&2; fail "dpkg $*"; }; }
proxima=$root/usr/bin/proxima config=$root/etc/proxima/node.toml data=$root/var/lib/proxima

debian -i "$dir/old.deb"
if command -v systemd-analyze >/dev/null; then
	sed "s#/usr/bin/proxima#$proxima#" "$root/usr/lib/systemd/system/proxima.service" >"$dir/proxima.service"
	said=$(systemd-analyze --man=no verify "$dir/proxima.service" 2>&1 | grep proxima.service || true)
	[ -z "$said" ] || fail "systemd finds fault with the unit: $said"
	systemd-analyze --root="$root" security --offline=true --threshold=15 proxima.service | tail -1
else
	echo "MISSING: systemd-analyze; the unit was not checked" >&2
fi

# crawl asks for one page and must get it.
crawl() {
	"$proxima" node -config "$config" -data "$data" -allow 127.0.0.0/8 -contact http://a.test/ -from a@a.test -max-pages 1 "$1" \
		>"$dir/crawl.log" 2>&1 || { cat "$dir/crawl.log" >&2; fail "the crawl of $1 failed"; }
	[ "$(grep -c "going on with" "$dir/crawl.log")" = "$2" ] || { cat "$dir/crawl.log" >&2; fail "wanted $2 notes of earlier starts"; }
}
mkdir "$dir/www"
echo '<a href=/b>b</a>' >"$dir/www/index.html"
echo b >"$dir/www/b"
if command -v python3 >/dev/null; then
	python3 -u -m http.server --bind 127.0.0.1 -d "$dir/www" 0 >"$dir/server.log" 2>&1 &
	server=$!
	for _ in $(seq 100); do grep -q Serving "$dir/server.log" && break; sleep 0.1; done
	url=http://127.0.0.1:$(grep -o 'port [0-9]*' "$dir/server.log" | cut -d' ' -f2)/
	crawl "$url" 0
else
	echo "MISSING: python3; nothing was crawled" >&2
fi
echo "# mine" >>"$config"
debian -i "$deb"
"$proxima" version
[ "$(dpkg-query --admindir="$root/var/lib/dpkg" -W -f '${Version}' proxima)" = "$version" ] || fail "the upgrade did not happen"
grep -q "# mine" "$config" || fail "the upgrade lost the configuration"
if [ -n "$server" ]; then crawl "$url" 1; fi
debian -r proxima
[ ! -e "$proxima" ] || fail "the program outlives its package"
[ -e "$config" ] || fail "the configuration was removed"
debian -P proxima
[ ! -e "$config" ] && [ ! -e "$data" ] || fail "something is left after a purge"
echo "installed, upgraded, removed, purged"
scripts/check/service.sh "$dir/old.deb" "$deb"

# The image is built around the program of the release, in the place of the stage that compiles it: that one wants a registry.
command -v buildah >/dev/null || { echo "MISSING: buildah; the image was not built" >&2; exit 0; }
mkdir -p "$dir/stage/etc/ssl/certs" "$dir/stage/data"
touch "$dir/stage/etc/ssl/certs/ca-certificates.crt"
cp "$dir"/a/proxima_*_linux_"$arch" "$dir/stage/proxima"
image() { buildah --root "$dir/images" --runroot "$dir/images.run" --storage-driver vfs "$@"; }
image bud --isolation chroot --build-context build="$dir/stage" -t proxima -f scripts/build/package/Containerfile "$dir/stage" \
	>"$dir/image.log" 2>&1 || { cat "$dir/image.log" >&2; fail "the image was not built"; }
container=$(image from --pull-never localhost/proxima)
image run --isolation chroot "$container" -- /usr/bin/proxima version
if [ -n "$server" ]; then
	image run --isolation chroot "$container" -- /usr/bin/proxima node -data /data -allow 127.0.0.0/8 -contact http://a.test/ \
		-from a@a.test -max-pages 1 "$url" >"$dir/crawl.log" 2>&1 || { cat "$dir/crawl.log" >&2; fail "the crawl in the container failed"; }
fi
echo "the image was built, and a page crawled in its container"
