#!/usr/bin/env bash
# service.sh OLD.deb NEW.deb: installs a package where systemd is the first process, runs the service as a node of an overlay of
# two, upgrades it in the middle of a crawl, and removes and purges it. Each page must be asked for once, or once
# more if the upgrade broke its download off.
# The machine of this check is made of namespaces: the files of this one below a layer that is thrown away, and a network of its
# own. Needs root, systemd, dpkg and python3; says what else is missing.
set -euo pipefail
missing() { echo "MISSING: $*; the service was not run" >&2; exit 0; }
fail() { echo "service: $*" >&2; exit 1; }
within() { # SECONDS CONDITION...: waits until a condition holds.
	local end=$((SECONDS + $1))
	shift
	until "$@" >/dev/null 2>&1; do [ $SECONDS -lt $end ] || return 1; sleep 0.2; done
}

# outside makes the machine and has the rest done in it.
outside() {
	local old new dir group= cgroups
	old=$(realpath "$1") new=$(realpath "$2")
	[ "$(id -u)" = 0 ] || missing root
	for tool in python3 unshare nsenter pivot_root ip dpkg; do command -v $tool >/dev/null || missing $tool; done
	[ -x /lib/systemd/systemd ] || missing systemd
	cgroups=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)
	[ -n "$cgroups" ] || missing "version 2 of control groups"
	dir=$(mktemp -d) group=$cgroups/proxima-check-$$
	trap "clean '$dir' '$group'" EXIT
	mkdir "$dir/machine" "$group" || missing "the right to make a control group"
	# The shell of the parentheses moves into the group, so that systemd finds itself at the top of one.
	(echo $BASHPID >"$group/cgroup.procs" && exec unshare --mount --pid --net --uts --ipc --cgroup --fork --kill-child \
		"$0" boot "$dir" "$old" "$new") >"$dir/boot.log" 2>&1 &
	local unshared=$! first=
	first_of() { first=$(pgrep -P "$unshared") && nsenter -t "$first" -m -p -r -w systemctl is-system-running | grep -Eq 'running|degraded'; }
	within 30 first_of || { cat "$dir/boot.log" >&2; missing "a machine that systemd boots in namespaces"; }
	nsenter -t "$first" -m -p -n -i -u -C -r -w /srv/service.sh inside
}

# clean ends what runs in the machine, and takes away what is left of it.
clean() {
	pkill -KILL -P "$(jobs -p)" || true
	if [ -d "$2" ]; then
		within 10 empty "$2" || true
		find "$2" -depth -type d -exec rmdir {} +
	fi
	rm -rf "$1"
}
empty() { ! grep -q . $(find "$1" -name cgroup.procs); }

# boot lays the files of the machine out and becomes its first process.
boot() {
	local d=$1/machine old=$2 new=$3 device
	mount --make-rprivate /
	mount -t tmpfs tmpfs "$d"
	mkdir -p "$d/layer/srv" "$d/work" "$d/root"
	cp "$0" "$d/layer/srv/service.sh"
	cp "$old" "$d/layer/srv/old.deb"
	cp "$new" "$d/layer/srv/new.deb"
	mount -t overlay overlay -o "lowerdir=/,upperdir=$d/layer,workdir=$d/work" "$d/root"
	cd "$d/root"
	mount -t proc proc proc
	mount --rbind /sys sys
	umount -R sys/fs/cgroup
	mount -t cgroup2 cgroup2 sys/fs/cgroup
	mount -t tmpfs -o mode=755 tmpfs run
	mount -t tmpfs -o mode=1777 tmpfs tmp
	mount -t tmpfs -o mode=755 tmpfs dev
	for device in null zero full random urandom tty; do
		touch "dev/$device"
		mount --bind "/dev/$device" "dev/$device"
	done
	mkdir dev/shm dev/pts
	mount -t tmpfs tmpfs dev/shm
	mount -t devpts devpts dev/pts -o newinstance,ptmxmode=0666
	ln -s pts/ptmx dev/ptmx
	ip link set lo up
	: >etc/machine-id
	mkdir -p old
	pivot_root . old
	umount -l old
	mount --make-rshared / # as systemd has it on a real machine
	exec env -i container=namespaces PATH="$PATH" /lib/systemd/systemd systemd.unit=sysinit.target
}

# inside is what an operator does, and what must come of it.
inside() {
	local site=/srv/site data=/var/lib/proxima hosts=12 pages=40 h p
	mkdir $site
	for h in $(seq $hosts); do
		mkdir "$site/h$h"
		echo "127.1.0.$h h$h.test" >>/etc/hosts
		for p in $(seq $pages); do
			echo "<a href=/h$h/$((p % pages + 1)).html>next</a> <a href=http://h$((h % hosts + 1)).test:8080/h$((h % hosts + 1))/$p.html>other</a>"
		done | awk -v dir="$site/h$h" '{print "<title>" NR "</title>" $0 >dir "/" NR ".html"}'
	done
	python3 -u -m http.server 8080 -d $site >/srv/site.log 2>&1 &
	within 10 grep -q Serving /srv/site.log || fail "no server of pages: $(cat /srv/site.log)"

	dpkg -i /srv/old.deb >/dev/null
	! systemctl -q is-active proxima || fail "a first installation starts the service"
	mkdir -p -m 0700 /etc/credstore
	proxima keygen /etc/credstore/proxima.secret >/dev/null
	echo http://h1.test:8080/h1/1.html >/etc/proxima/seeds.txt
	configure /etc/proxima/node.toml 127.0.0.1 /run/credentials/proxima.service/proxima.secret 127.0.0.2
	echo 'seeds = ["/etc/proxima/seeds.txt"]' | sed -i '/^\[crawl\]/r /dev/stdin' /etc/proxima/node.toml
	configure /srv/peer.toml 127.0.0.2 /etc/credstore/proxima.secret 127.0.0.1
	proxima node -config /srv/peer.toml -data /srv/peer >/srv/peer.log 2>&1 &
	local peer=$!
	systemctl enable --now proxima 2>/dev/null || trouble "the service does not start"
	within 60 asked 40 || trouble "the service crawls nothing"

	dpkg -i /srv/new.deb >/dev/null
	systemctl -q is-active proxima || trouble "the service does not run after the upgrade"
	within 30 started 2 || trouble "the upgrade did not restart the service"
	grep '"event":"stop"' $data/logs/node.jsonl | grep -q '"boot":1,' || trouble "the node before the upgrade did not end in order"
	within 120 over $peer || trouble "the crawl does not end"
	wait $peer || fail "the peer failed: $(tail -5 /srv/peer.log)"
	[ "$(systemctl show -P Result proxima)" = success ] || trouble "the service failed"
	# A download that lasts a second longer than the node may is broken off, and made again.
	local broken
	broken=$(cat $data/logs/fetch.jsonl /srv/peer/logs/fetch.jsonl | grep -c '"kind":"page",.*"error":"canceled"' || true)
	grep -o 'GET /h[0-9]*/[0-9]*.html' /srv/site.log | sort | uniq -c | awk -v all=$((hosts * pages)) -v broken="$broken" '
		{n += $1} END {print NR " pages of " all ", asked for " n " times, over an upgrade that broke off " broken; exit NR != all || n > all + broken}' ||
		trouble "pages are lost or repeated"

	systemctl start proxima
	dpkg -r proxima >/dev/null 2>&1
	! systemctl -q is-active proxima || fail "the service outlives its package"
	dpkg -P proxima >/dev/null 2>&1
	[ ! -e /etc/proxima/node.toml ] && [ ! -L $data ] && [ ! -e /var/lib/private/proxima ] || fail "something is left after a purge"
	echo "a service was installed, run, upgraded, removed and purged"
}
started() { [ "$(grep -c '"event":"start"' /var/lib/proxima/logs/node.jsonl)" -ge "$1" ]; }
asked() { [ "$(grep -c '"kind":"page"' /var/lib/proxima/logs/fetch.jsonl)" -ge "$1" ]; }
over() { ! systemctl -q is-active proxima && ! kill -0 "$1"; }
trouble() {
	journalctl --no-pager -o cat -u proxima | tail -20 >&2
	tail -5 /srv/peer.log >&2
	fail "$*"
}
configure() { # FILE ADDRESS SECRET PEER
	cat >"$1" <<-TOML
		[node]
		data = "/var/lib/proxima"
		[crawl]
		patience = "10s"
		[politeness]
		own = ["127.0.0.0/8"]
		own_gap = "300ms"
		[fetch]
		contact = "http://h1.test/"
		from = "a@h1.test"
		allow_prefixes = ["127.0.0.0/8"]
		[fetch.dns.hosts]
		$(sed -n 's/^\(127.1.0[^ ]*\) \(h.*\)/"\2" = ["\1"]/p' /etc/hosts)
		[batch]
		assigners = ["random"]
		[peer]
		secret = "$3"
		listen = "$2:7947"
		[member]
		bind = "$2:7946"
		join = ["$4:7946"]
	TOML
}

case ${1:-} in
boot | inside) "$@" ;;
*) [ $# = 2 ] || { echo "usage: service.sh OLD.deb NEW.deb" >&2; exit 2; }; outside "$@" ;;
esac
