package sites

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"proxima/node/bell"
)

const (
	// nginxPatience is how long nginx may take to start.
	nginxPatience = 10 * time.Second
	nginxPoll     = 10 * time.Millisecond
)

// Nginx is a real web server with real documentation. It has no think time.
type Nginx struct {
	// Dir is the absolute path of a folder for everything that nginx writes. It is empty or absent.
	Dir     string
	Port    uint16
	Sites   []NginxSite
	Install *Install
	Start   func(*exec.Cmd) error
}

// NginxSite is one host. Several may share an address.
type NginxSite struct {
	Host string
	Addr netip.Addr
	// Tree selects the documentation: an index of Install.Trees, modulo its length.
	Tree int
}

func (x *Nginx) tree(s NginxSite) Tree { return x.Install.Trees[s.Tree%len(x.Install.Trees)] }

func (x *Nginx) file(name string) string { return filepath.Join(x.Dir, name) }

// text returns the configuration. nginx runs as a single process, so that a kill ends all of it. Files are named
// relative to Dir, whose path may have characters that mean something here.
func (x *Nginx) text() string {
	var b strings.Builder
	if os.Geteuid() == 0 { // nginx would look for another user, which a user namespace does not have
		b.WriteString("user root root;\n")
	}
	b.WriteString(`daemon off;
master_process off;
pid nginx.pid;
error_log error.log;
events { worker_connections 4096; }
http {
  types {
    text/html html htm;  text/css css;  text/plain txt;  application/javascript js;  application/xml xml;
    image/png png;  image/gif gif;  image/jpeg jpg;  image/svg+xml svg;  application/pdf pdf;  application/gzip gz;
  }
  default_type application/octet-stream;
  charset utf-8;
  sendfile on;
  tcp_nodelay on;
  keepalive_requests 100000;
  server_tokens off;
  server_names_hash_bucket_size 128;
  server_names_hash_max_size 16384;
  client_body_temp_path tmp;  proxy_temp_path tmp;  fastcgi_temp_path tmp;
  uwsgi_temp_path tmp;  scgi_temp_path tmp;
  log_format requests escape=json '{"end":$msec,"took":$request_time,"server":"$server_addr","host":"$host","uri":"$request_uri",'
    '"status":$status,"bytes":$body_bytes_sent}';
  access_log access.log requests;
`)
	known := map[netip.Addr]bool{}
	for _, s := range x.Sites {
		at := netip.AddrPortFrom(s.Addr, x.Port)
		if !known[s.Addr] {
			known[s.Addr] = true
			fmt.Fprintf(&b, "  server { listen %v default_server; return 421; }\n", at)
		}
		fmt.Fprintf(&b, "  server { listen %v; server_name %s; root \"%s\"; }\n", at, s.Host, x.tree(s).Root)
	}
	b.WriteString("}\n")
	return b.String()
}

// Fronts returns the first pages of some hosts, or of all sites if none is named.
func (x *Nginx) Fronts(hosts ...string) []string {
	var urls []string
	for _, s := range x.Sites {
		if len(hosts) == 0 || slices.Contains(hosts, s.Host) {
			urls = append(urls, "http://"+authority(s.Host, x.Port)+x.tree(s).Start)
		}
	}
	return urls
}

// Run configures nginx and runs it until the context ends. It calls ready when nginx listens.
func (x *Nginx) Run(ctx context.Context, ready func()) error {
	work, kill := context.WithCancelCause(ctx)
	defer kill(nil)
	if err := errors.Join(os.MkdirAll(x.file("tmp"), 0o755), os.WriteFile(x.file("nginx.conf"), []byte(x.text()), 0o644)); err != nil {
		return fmt.Errorf("configure nginx: %w", err)
	}
	// A kill loses nothing: nginx keeps neither files nor its log in memory.
	cmd := exec.CommandContext(work, x.Install.Path, "-p", x.Dir, "-e", "error.log", "-c", "nginx.conf")
	if err := x.Start(cmd); err != nil {
		return fmt.Errorf("start nginx: %w", err)
	}
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for late := time.Now().Add(nginxPatience); bell.Sleep(work, nginxPoll) == nil; {
			// nginx writes its pid file once its sockets are open.
			if info, err := os.Stat(x.file("nginx.pid")); err == nil && info.Size() > 0 {
				ready()
				return
			}
			if time.Now().After(late) {
				kill(fmt.Errorf("it does not listen after %v", nginxPatience))
			}
		}
	})
	err := cmd.Wait()
	kill(errors.New("it ended by itself"))
	waiting.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("nginx: %w; its log ends with: %s", errors.Join(context.Cause(work), err), LastLines(x.file("error.log"), 5))
}

// Tree is the HTML documentation of a Debian package.
type Tree struct {
	// Package is the Debian package to install.
	Package string
	// Root is the directory, Start the path of the first page.
	Root, Start string
}

func trees() []Tree {
	return []Tree{
		{"python3-doc", "/usr/share/doc/python3-doc/html", "/"},
		{"debian-reference-en", "/usr/share/debian-reference", "/"},
		{"git-doc", "/usr/share/doc/git-doc", "/"},
		{"bash-doc", "/usr/share/doc/bash", "/bashref.html"},
	}
}

// Install is the software on this machine for real sites: the nginx program and at least one tree for it to serve.
type Install struct {
	Path  string
	Trees []Tree
}

// FindNginx looks for nginx and for documentation to serve. Its error says what to install. Generated pages need neither.
func FindNginx() (*Install, error) {
	in := &Install{}
	var errs []error
	// sbin is not in the PATH of ordinary users.
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			in.Path = path
			break
		}
	}
	if in.Path == "" {
		errs = append(errs, errors.New("nginx is not installed (package nginx-light)"))
	}
	var missing []string
	for _, t := range trees() {
		if pages, _ := filepath.Glob(filepath.Join(t.Root, "*.html")); len(pages) == 0 {
			missing = append(missing, t.Package)
			continue
		}
		root, err := filepath.EvalSymlinks(t.Root)
		if err != nil {
			return nil, fmt.Errorf("look for documentation: %w", err)
		}
		t.Root = root
		in.Trees = append(in.Trees, t)
	}
	if len(in.Trees) == 0 {
		errs = append(errs, fmt.Errorf("there is no documentation to serve (any of the packages %s)", strings.Join(missing, ", ")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return in, nil
}

// LastLines returns the last lines of a file, or "" if it cannot be read.
func LastLines(path string, most int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
