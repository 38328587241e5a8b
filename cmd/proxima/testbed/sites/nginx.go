package sites

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	// nginxPatience is how long nginx may take to start and to stop.
	nginxPatience = 10 * time.Second
	nginxPoll     = 10 * time.Millisecond
)

// NginxConfig describes what nginx serves.
type NginxConfig struct {
	// Dir receives everything that nginx writes. It is created if absent.
	Dir     string
	Port    uint16
	Sites   []NginxSite
	Install *Install
}

// NginxSite is one host. Several may share an address.
type NginxSite struct {
	Host string
	Addr netip.Addr
	// Tree selects the documentation: an index of Install.Trees, modulo its length.
	Tree int
}

func (c NginxConfig) tree(s NginxSite) Tree { return c.Install.Trees[s.Tree%len(c.Install.Trees)] }

// Nginx is a real web server with real documentation. It has no think time.
type Nginx struct {
	cfg   NginxConfig
	start func(*exec.Cmd) error
}

// NewNginx writes the configuration. It starts nothing.
func NewNginx(cfg NginxConfig, deps Deps) (*Nginx, error) {
	if cfg.Install == nil || len(cfg.Install.Trees) == 0 {
		return nil, errors.New("configure nginx: nothing is installed")
	}
	if deps.Start == nil {
		deps.Start = (*exec.Cmd).Start
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	cfg.Dir = dir
	x := &Nginx{cfg: cfg, start: deps.Start}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	// The pid file of an earlier run would look like a sign of life.
	if err := os.Remove(x.file("nginx.pid")); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	account, err := account()
	if err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	if err := os.WriteFile(x.file("nginx.conf"), []byte(account+cfg.text()), 0o644); err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	return x, nil
}

func (x *Nginx) file(name string) string { return filepath.Join(x.cfg.Dir, name) }

// account returns a configuration line that makes nginx keep root's user, since a user namespace has no other; "" if not root.
func account() (string, error) {
	if os.Geteuid() != 0 {
		return "", nil
	}
	who, err := user.Current()
	if err != nil {
		return "", err
	}
	group, err := user.LookupGroupId(who.Gid)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("user %s %s;\n", who.Username, group.Name), nil
}

// text returns the configuration. nginx runs as a single process, so that one signal ends all of it.
func (c NginxConfig) text() string {
	var b strings.Builder
	fmt.Fprintf(&b, `daemon off;
master_process off;
pid "%[1]s/nginx.pid";
error_log "%[1]s/error.log";
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
  client_body_temp_path "%[1]s/tmp";  proxy_temp_path "%[1]s/tmp";  fastcgi_temp_path "%[1]s/tmp";
  uwsgi_temp_path "%[1]s/tmp";  scgi_temp_path "%[1]s/tmp";
  log_format requests escape=json '{"end":$msec,"took":$request_time,"server":"$server_addr","host":"$host","uri":"$request_uri",'
    '"status":$status,"bytes":$body_bytes_sent}';
  access_log "%[1]s/access.log" requests;
`, c.Dir)
	known := map[netip.Addr]bool{}
	for _, s := range c.Sites {
		at := netip.AddrPortFrom(s.Addr, c.Port)
		if !known[s.Addr] {
			known[s.Addr] = true
			fmt.Fprintf(&b, "  server { listen %v default_server; return 421; }\n", at)
		}
		fmt.Fprintf(&b, "  server { listen %v; server_name %s; root \"%s\"; }\n", at, s.Host, c.tree(s).Root)
	}
	b.WriteString("}\n")
	return b.String()
}

// Fronts returns the first pages of all sites.
func (x *Nginx) Fronts() []string {
	var urls []string
	for _, s := range x.cfg.Sites {
		urls = append(urls, "http://"+authority(s.Host, x.cfg.Port)+x.cfg.tree(s).Start)
	}
	return urls
}

// Run runs nginx until the context ends. It calls ready when nginx listens.
func (x *Nginx) Run(ctx context.Context, ready func()) error {
	cmd := exec.Command(x.cfg.Install.Path, "-e", x.file("error.log"), "-p", x.cfg.Dir, "-c", x.file("nginx.conf"))
	if err := x.start(cmd); err != nil {
		return fmt.Errorf("start nginx: %w", err)
	}
	ended := make(chan struct{})
	var g errgroup.Group
	g.Go(func() error {
		defer close(ended)
		return cmd.Wait()
	})
	failure := x.watch(ctx, ended, ready)
	x.stop(cmd, ended)
	if err := g.Wait(); failure != nil {
		return fmt.Errorf("nginx: %w; its log ends with: %s", errors.Join(failure, err), LastLines(x.file("error.log"), 5))
	}
	return nil
}

// watch returns nil when the context ends, and an error when nginx fails.
func (x *Nginx) watch(ctx context.Context, ended <-chan struct{}, ready func()) error {
	poll := time.NewTicker(nginxPoll)
	defer poll.Stop()
	late := time.After(nginxPatience)
	for listens := false; !listens; {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return errors.New("it ended at once")
		case <-late:
			return fmt.Errorf("it does not listen after %v", nginxPatience)
		case <-poll.C:
			// nginx writes its pid file once its sockets are open.
			if info, err := os.Stat(x.file("nginx.pid")); err == nil && info.Size() > 0 {
				listens = true
			}
		}
	}
	ready()
	select {
	case <-ctx.Done():
		return nil
	case <-ended:
		return errors.New("it ended by itself")
	}
}

// stop asks nginx to end and kills it if it does not. It ignores errors: the process has ended then.
func (x *Nginx) stop(cmd *exec.Cmd, ended <-chan struct{}) {
	late := time.After(nginxPatience)
	again := time.NewTicker(10 * nginxPoll)
	defer again.Stop()
	for {
		// Repeat the signal: nginx can miss one that arrives just before it goes to sleep.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return
		case <-late:
			_ = cmd.Process.Kill()
			return
		case <-again.C:
		}
	}
}
