#!/usr/bin/env bash
# Makes a release of the last commit: release.sh [OUT [OS/ARCH ...]]. For each system a static program without the testbed
# (tag nolab; on Linux a Debian package, too), completions, the manual page, an SBOM and SHA256SUMS. The commit is built in a clone, so the
# same commit gives the same bytes wherever it is built with the same Go.
set -euo pipefail
umask 022 # the modes of what is packed
out=$(realpath -m "${1:-release}")
shift || true
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
cd "$(dirname "$0")/../.."

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
git diff --quiet HEAD || echo "what is not committed is not in the release" >&2
git clone -q --shared . "$work/src"
cd "$work/src"
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0
version=$(git describe --tags --match 'v[0-9]*' 2>/dev/null || true)
version=${version#v}
version=${version:-0.0.$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S)+$(git rev-parse --short=12 HEAD)}
mkdir -p "$out"
rm -f "$out"/proxima* "$out/SHA256SUMS"

flags=(-trimpath -buildvcs=true -tags nolab -ldflags "-s -w -buildid=")
go build "${flags[@]}" -o "$work/here" ./cmd/proxima
for shell in bash zsh fish man; do "$work/here" completion "$shell" >"$work/$shell"; done
cp "$work/bash" "$out/proxima.bash"
cp "$work/zsh" "$out/proxima.zsh"
cp "$work/fish" "$out/proxima.fish"
cp "$work/man" "$out/proxima.1"

# package ARCH PROGRAM makes the Debian package.
package() {
	local root=$work/root-$1
	install -D -m 755 "$2" "$root/usr/bin/proxima"
	install -D -m 644 "$work/bash" "$root/usr/share/bash-completion/completions/proxima"
	install -D -m 644 "$work/zsh" "$root/usr/share/zsh/vendor-completions/_proxima"
	install -D -m 644 "$work/fish" "$root/usr/share/fish/vendor_completions.d/proxima.fish"
	install -D -m 644 scripts/build/package/proxima.service "$root/usr/lib/systemd/system/proxima.service"
	install -D -m 644 scripts/build/package/node.toml "$root/etc/proxima/node.toml"
	install -D -m 644 LICENSE "$root/usr/share/doc/proxima/copyright"
	mkdir -p "$root/usr/share/man/man1" "$root/DEBIAN"
	gzip -9n <"$work/man" >"$root/usr/share/man/man1/proxima.1.gz"
	gzip -9n <docs/CHANGELOG.md >"$root/usr/share/doc/proxima/changelog.gz"
	install -m 755 scripts/build/package/{postinst,prerm,postrm} "$root/DEBIAN"
	echo /etc/proxima/node.toml >"$root/DEBIAN/conffiles"
	cat >"$root/DEBIAN/control" <<-CONTROL
		Package: proxima
		Version: $version
		Architecture: $1
		Maintainer: Proxima <proxima@localhost>
		Section: net
		Priority: optional
		Recommends: ca-certificates
		Installed-Size: $(du -ks --apparent-size "$root" --exclude=DEBIAN | cut -f1)
		Description: decentralised web crawler
		 Nodes share the crawl of the web among themselves, and let each server be
		 crawled by the node that is nearest to it.
	CONTROL
	find "$root" -newermt "@$SOURCE_DATE_EPOCH" -exec touch -hd "@$SOURCE_DATE_EPOCH" {} +
	dpkg-deb --root-owner-group -Zxz -b "$root" "$out/proxima_${version}_$1.deb" >/dev/null
}

programs=()
for target; do
	os=${target%/*} arch=${target#*/}
	program=$out/proxima_${version}_${os}_$arch
	GOOS=$os GOARCH=$arch go build "${flags[@]}" -o "$program" ./cmd/proxima
	programs+=("$program")
	if [ "$os" = linux ]; then
		if command -v dpkg-deb >/dev/null; then package "$arch" "$program"; else echo "MISSING: dpkg-deb; no Debian package" >&2; fi
	fi
done
go run ./scripts/build/sbom "$version" "${programs[@]}" >"$out/proxima_$version.cdx.json"
cd "$out"
sha256sum proxima* >SHA256SUMS
ls -l
