package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Shape of the site: within a host a tree in which each page is named by its parent alone, so that nothing that is lost is
// found again by another way. Every fourth page has its parent at another host. Links to ancestors, to pages of the
// first levels elsewhere and to a forbidden page are known or refused already.
const (
	arity     = 8
	elsewhere = 4 // one page in so many is named at another host
	subnet    = "127.0.3."
	firstAddr = 11 // last byte of the first address
	robotsTxt = "User-agent: *\nDisallow: /forbidden/\n"
	seedHosts = 3 // so many hosts are seeds; the others are found by links

	slow = 600 * time.Millisecond // for each request more, while the crawl waits for its faults
)

// host is one host of the site.
type host struct {
	name, addr string // without port
	pages      int
}

// layout is the site without its files: which pages there are and which names which.
type layout struct {
	hosts []host
	port  int
}

// newLayout spreads pages over hosts of different sizes, and hosts over addresses.
func newLayout(pages, hosts, addresses int) layout {
	var l layout
	weights := 0
	for i := range hosts {
		weights += 1 + i%4
	}
	left := pages
	for i := range hosts {
		n := max(1, pages*(1+i%4)/weights)
		if i == hosts-1 {
			n = max(1, left)
		}
		left -= n
		l.hosts = append(l.hosts, host{fmt.Sprintf("h%02d.test", i), subnet + strconv.Itoa(firstAddr+i%addresses), n})
	}
	return l
}

// authority is the name and port of a host.
func (l *layout) authority(h int) string { return fmt.Sprintf("%s:%d", l.hosts[h].name, l.port) }

func (l *layout) url(h, page int) string { return "http://" + l.authority(h) + target(page) }

// target is the request target of a page.
func target(page int) string {
	if page == 0 {
		return "/"
	}
	return fmt.Sprintf("/p%d/%d.html", page/200, page)
}

// parent is the one page that names another; ok is false for the first page of the first hosts, which are seeds.
func (l *layout) parent(h, page int) (ph, pp int, ok bool) {
	if page == 0 {
		if h < seedHosts {
			return 0, 0, false
		}
		return (h - seedHosts) / 2, 0, true
	}
	up := (page - 1) / arity
	if page%elsewhere == elsewhere-1 {
		if other := (h + 1 + page) % len(l.hosts); up < l.hosts[other].pages {
			return other, up, true
		}
	}
	return h, up, true
}

// pages lists all pages as authority and target.
func (l *layout) pages() []string {
	var list []string
	for h := range l.hosts {
		for p := range l.hosts[h].pages {
			list = append(list, l.authority(h)+target(p))
		}
	}
	return list
}

// site is the running site.
type site struct {
	layout
	dir    string
	nginx  *exec.Cmd
	ended  chan error
	think  *http.Server
	served atomic.Int64 // requests that the site has answered
	// slowAfter is how many requests the site answers at its usual pace; 0 is all.
	slowAfter atomic.Int64

	// mu guards what follows.
	mu   sync.Mutex
	busy map[int]int // requests by node since the last look
}

// startSite writes the site and serves it.
func startSite(ctx context.Context, s settings) (*site, error) {
	program, err := nginxPath()
	if err != nil {
		return nil, err
	}
	w := &site{layout: newLayout(s.pages, s.hosts, s.addresses), dir: filepath.Join(s.dir, "site"), busy: make(map[int]int)}
	if w.port, err = freePort(subnet + strconv.Itoa(firstAddr)); err != nil {
		return nil, err
	}
	if err := w.write(); err != nil {
		return nil, fmt.Errorf("write site: %w", err)
	}
	// Every request waits here for its think time, so that kills meet requests and requests that meet each other are seen.
	l, err := net.Listen("unix", filepath.Join(w.dir, "think"))
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	w.think = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		h := fnv.New32a()
		io.WriteString(h, r.Header.Get("X-Page")) // a hash does not fail
		think := time.Duration(h.Sum32()%1000) * s.think / 500
		if after := w.slowAfter.Load(); after > 0 && w.served.Load() >= after {
			think += slow
		}
		pause := time.NewTimer(think)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-r.Context().Done():
		}
		w.note(r.UserAgent())
		rw.WriteHeader(http.StatusNoContent)
	})}
	go w.think.Serve(l) // ends with stop
	w.nginx = exec.Command(program, "-e", filepath.Join(w.dir, "error.log"), "-p", w.dir, "-c", filepath.Join(w.dir, "nginx.conf"), "-g", "daemon off;")
	w.nginx.Stderr = os.Stderr
	if err := w.nginx.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start nginx: %w", err), w.think.Close())
	}
	w.ended = make(chan error, 1)
	go func() { w.ended <- w.nginx.Wait() }()
	for {
		conn, err := net.DialTimeout("tcp", fmt.Sprintf("%s:%d", w.hosts[len(w.hosts)-1].addr, w.port), time.Second)
		if err == nil {
			return w, conn.Close()
		}
		select {
		case err := <-w.ended:
			return nil, errors.Join(fmt.Errorf("nginx ended: %w", err), w.think.Close())
		case <-ctx.Done():
			return nil, errors.Join(ctx.Err(), w.stop())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// note counts a request.
func (w *site) note(agent string) {
	w.served.Add(1)
	var node int
	if _, err := fmt.Sscanf(agent, "Proxima/%d.", &node); err != nil {
		return // whose it was is judged later
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.busy[node]++
}

// takeBusy returns who has asked how often since the last call.
func (w *site) takeBusy() map[int]int {
	w.mu.Lock()
	defer w.mu.Unlock()
	busy := w.busy
	w.busy = make(map[int]int)
	return busy
}

// nginxPath finds nginx where the path of an ordinary user does not lead.
func nginxPath() (string, error) {
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", missing{errors.New("nginx is missing: apt-get install --no-install-recommends nginx-light")}
}

func freePort(addr string) (int, error) {
	l, err := net.Listen("tcp", addr+":0")
	if err != nil {
		return 0, fmt.Errorf("find free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, l.Close()
}

func (w *site) stop() error {
	if err := w.nginx.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop nginx: %w", err)
	}
	<-w.ended
	return w.think.Close()
}

// write writes the pages, their list and nginx's configuration.
func (w *site) write() error {
	children := map[[2]int][][2]int{}
	for h := range w.hosts {
		for p := range w.hosts[h].pages {
			if ph, pp, ok := w.parent(h, p); ok {
				children[[2]int{ph, pp}] = append(children[[2]int{ph, pp}], [2]int{h, p})
			}
		}
	}
	for h := range w.hosts {
		root := filepath.Join(w.dir, "www", w.hosts[h].name)
		for part := 0; part*200 < w.hosts[h].pages; part++ {
			if err := os.MkdirAll(filepath.Join(root, fmt.Sprintf("p%d", part)), 0o755); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(root, "robots.txt"), []byte(robotsTxt), 0o644); err != nil {
			return err
		}
		for p := range w.hosts[h].pages {
			name := target(p)
			if p == 0 {
				name = "/index.html"
			}
			if err := os.WriteFile(filepath.Join(root, name), w.page(h, p, children[[2]int{h, p}]), 0o644); err != nil {
				return err
			}
		}
	}
	if err := os.Mkdir(filepath.Join(w.dir, "tmp"), 0o755); err != nil {
		return err
	}
	list := strings.Join(w.pages(), "\n") + "\n"
	if err := os.WriteFile(filepath.Join(w.dir, "pages.txt"), []byte(list), 0o644); err != nil {
		return err
	}
	return w.writeConfig()
}

func (w *site) page(h, page int, children [][2]int) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE html><title>%s %d</title><a href=\"%s\">itself</a> <a href=\"/forbidden/%d\">no</a>\n", w.hosts[h].name, page, target(page), page%7)
	for up := page; up > 0; {
		up = (up - 1) / arity
		fmt.Fprintf(&b, "<a href=\"%s\">up</a>\n", target(up))
	}
	for i := range 3 {
		other := (h + page + i) % len(w.hosts)
		fmt.Fprintf(&b, "<a href=\"%s\">first pages elsewhere</a>\n", w.url(other, page%min(10, w.hosts[other].pages)))
	}
	for _, c := range children {
		if c[0] == h {
			fmt.Fprintf(&b, "<a href=\"%s\">child</a>\n", target(c[1]))
		} else {
			fmt.Fprintf(&b, "<a href=\"%s\">child elsewhere</a>\n", w.url(c[0], c[1]))
		}
	}
	for range page * 7919 % 60 {
		b.WriteString("<p>Some words that make pages of different lengths, up to some kilobytes.</p>\n")
	}
	return []byte(b.String())
}

func (w *site) writeConfig() error {
	f, err := os.Create(filepath.Join(w.dir, "nginx.conf"))
	if err != nil {
		return err
	}
	b := bufio.NewWriter(f)
	if os.Getuid() == 0 {
		fmt.Fprintln(b, "user root;") // temporary directories are made for one user alone
	}
	fmt.Fprintf(b, `pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
worker_processes 1;
events { worker_connections 1024; }
http {
  types { text/html html; text/plain txt; }
  keepalive_requests 100000;
  client_body_temp_path %[1]s/tmp;  proxy_temp_path %[1]s/tmp;  fastcgi_temp_path %[1]s/tmp;
  uwsgi_temp_path %[1]s/tmp;  scgi_temp_path %[1]s/tmp;
  log_format requests escape=json '{"time":$msec,"took":$request_time,"connection":$connection,"request":$connection_requests,'
    '"server":"$server_addr","host":"$http_host","uri":"$request_uri","status":$status,"bytes":$body_bytes_sent,"agent":"$http_user_agent"}';
  access_log %[1]s/access.log requests;
  upstream think { server unix:%[1]s/think; keepalive 64; }
`, w.dir)
	for _, h := range w.hosts {
		fmt.Fprintf(b, `  server {
    listen %s:%d; server_name %s; root %s;
    location / { auth_request /.think; }
    location = /.think {
      internal; proxy_pass http://think; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header X-Page $request_uri;
      proxy_pass_request_body off; proxy_set_header Content-Length "";
    }
  }
`, h.addr, w.port, h.name, filepath.Join(w.dir, "www", h.name))
	}
	b.WriteString("}\n")
	return errors.Join(b.Flush(), f.Close())
}
