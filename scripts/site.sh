#!/usr/bin/env bash
# Serves real documentation from Debian packages on loopback addresses, for trying and checking a crawler without the web.
#   scripts/site.sh start [DIR]   write DIR/nginx.conf and run nginx in the background; DIR holds all that it writes
#   scripts/site.sh stop [DIR]    stop it
#   scripts/site.sh urls          print the seeds, a URL a line
#   scripts/site.sh config        print a configuration for proxima node that crawls these sites and nothing else
# DIR is /tmp/proxima-site-UID by default, SITE_PORT (8090) the port. Works as root and as an ordinary user. Exit codes:
# 0 done, 1 failed, 2 wrong usage, 3 a package is missing and cannot be installed.
#
# DIR/access.log has a line of JSON a request: time, server, host, uri, status, type, bytes, location, agent. The gate
# serves every host by name: a program without static names takes it as its HTTP proxy, and needs no DNS.
set -euo pipefail

port=${SITE_PORT:-8090}
gate=127.0.2.9
# host, address, root, start page, Debian package, robots.txt ("-": there is none). Two hosts share an address.
sites=(
  "python.test     127.0.2.1  /usr/share/doc/python3-doc/html  /           python3-doc          User-agent:\x20*\nDisallow:\x20/whatsnew/\n"
  "reference.test  127.0.2.2  /usr/share/debian-reference     /            debian-reference-en  User-agent:\x20*\nDisallow:\n"
  "git.test        127.0.2.2  /usr/share/doc/git-doc          /            git-doc              -"
  "bash.test       127.0.2.3  /usr/share/doc/bash             /bashref.html  bash-doc           -"
)

usage() { sed -n '2,6s/^# \{0,1\}//p' "$0" >&2; exit 2; }

# each calls a function with the six fields of every site.
each() {
  local line fields
  for line in "${sites[@]}"; do
    read -ra fields <<<"$line"
    "$@" "${fields[@]}"
  done
}

# need installs what is missing, or says what to install.
need() {
  local missing=()
  [ -n "$(nginx_path)" ] || missing+=(nginx-light)
  lacks() { [ -d "$3" ] && [ -n "$(find -L "$3" -maxdepth 1 -name '*.html' -print -quit)" ] || missing+=("$5"); }
  each lacks
  [ ${#missing[@]} -gt 0 ] || return 0
  if [ "$(id -u)" != 0 ]; then
    echo "site.sh: install first: apt-get install --no-install-recommends ${missing[*]}" >&2
    exit 3
  fi
  echo "site.sh: installing ${missing[*]} with apt-get" >&2
  export DEBIAN_FRONTEND=noninteractive
  # A new nginx would start as a service of its own, on port 80: the policy forbids it where there is none.
  local policy=/usr/sbin/policy-rc.d made=
  [ -e "$policy" ] || { printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=1; }
  local code=0
  { apt-get update -qq && apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >&2 || code=3
  [ -z "$made" ] || rm -f "$policy"
  [ $code = 0 ] || { echo "site.sh: apt-get could not install ${missing[*]}" >&2; exit 3; }
}

# nginx_path finds nginx where the path of an ordinary user does not lead.
nginx_path() { PATH="$PATH:/usr/sbin:/usr/local/sbin" command -v nginx || true; }

server() {
  local host=$1 address=$2 root=$3 robots=$6
  echo "  server {"
  echo "    listen $address:$port; listen $gate:$port;"
  echo "    server_name $host; root $root;"
  [ "$robots" = - ] || printf '    location = /robots.txt { default_type text/plain; return 200 "%s"; }\n' "${robots//\\x20/ }"
  echo "  }"
}

# write_config names files relative to the folder of the server, whose path may have characters that mean something to nginx.
write_config() {
  cat <<END
pid nginx.pid;
error_log error.log;
worker_processes 1;
events { worker_connections 512; }
http {
  types {
    text/html html htm;  text/css css;  text/plain txt;  application/javascript js;  application/xml xml;
    image/png png;  image/gif gif;  image/jpeg jpg;  image/svg+xml svg;  application/pdf pdf;  application/gzip gz;
  }
  default_type application/octet-stream;
  charset utf-8;
  sendfile on;
  keepalive_requests 100000;
  server_tokens off;
  client_body_temp_path tmp;  proxy_temp_path tmp;  fastcgi_temp_path tmp;
  uwsgi_temp_path tmp;  scgi_temp_path tmp;
  log_format requests escape=json '{"time":\$msec,"server":"\$server_addr","host":"\$host","uri":"\$request_uri",'
    '"status":\$status,"type":"\$sent_http_content_type","bytes":\$body_bytes_sent,'
    '"location":"\$sent_http_location","agent":"\$http_user_agent"}';
  access_log access.log requests;
  # Names that are not served here.
  server { listen $gate:$port default_server; return 421; }
END
  each server
  echo "}"
}

start() {
  local dir=$1 nginx
  need
  nginx=$(nginx_path)
  mkdir -p "$dir/tmp"
  [ -O "$dir" ] || { echo "site.sh: $dir belongs to somebody else" >&2; exit 1; }
  dir=$(cd "$dir" && pwd)
  if [ -s "$dir/nginx.pid" ] && kill -0 "$(cat "$dir/nginx.pid")" 2>/dev/null; then
    echo "site.sh: already running in $dir" >&2
    exit 1
  fi
  write_config >"$dir/nginx.conf"
  # It says itself what is wrong, a port in use for one.
  "$nginx" -e "$dir/error.log" -p "$dir" -c "$dir/nginx.conf"
  # The parent returns once the sockets listen; the pid file may come a moment later.
  for _ in $(seq 50); do
    [ -s "$dir/nginx.pid" ] && break
    sleep 0.1
  done
  echo "site.sh: serving $(urls | wc -l) sites; log $dir/access.log; stop with: $(printf '%q stop %q' "$0" "$dir")" >&2
}

stop() {
  local dir=$1 pid
  pid=$(cat "$dir/nginx.pid" 2>/dev/null) || { echo "site.sh: not running in $dir" >&2; exit 1; }
  kill -QUIT "$pid" 2>/dev/null || true
  for _ in $(seq 50); do
    kill -0 "$pid" 2>/dev/null || return 0
    sleep 0.1
  done
  kill -TERM "$pid" 2>/dev/null || true # it may have ended meanwhile
}

urls() {
  url() { echo "http://$1:$port$4"; }
  each url
}

config() {
  cat <<END
# The sites of scripts/site.sh, for: proxima node -config FILE \$(scripts/site.sh urls)
[crawl]
patience = "2s"

[scope]
seed_scope = "host"

[politeness] # these servers are ours: no gap, some requests in parallel
own = ["127.0.2.0/24"]
own_gap = "0s"
own_parallel = 4

[fetch]
allow_prefixes = ["127.0.2.0/24"]

[fetch.dns.hosts]
END
  name() { echo "\"$1\" = [\"$2\"]"; }
  each name
}

dir=${2:-/tmp/proxima-site-$(id -u)}
case ${1:-} in
  start) start "$dir" ;;
  stop) stop "$dir" ;;
  urls) urls ;;
  config) config ;;
  *) usage ;;
esac
