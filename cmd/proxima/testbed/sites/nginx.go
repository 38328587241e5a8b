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
	// nginxPatience is how long nginx may take to listen, and to stop.
	nginxPatience = 10 * time.Second
	nginxLook     = 10 * time.Millisecond
)

// NginxConfig is what nginx shall serve.
type NginxConfig struct {
	// Dir is where all is that it writes; it is made if it is not there.
	Dir string
	// Port is the one to listen at, 80 by default.
	Port    uint16
	Sites   []NginxSite
	Install *Install
}

// NginxSite is one host; many may share an address.
type NginxSite struct {
	Host string
	Addr netip.Addr
	// Tree chooses what it serves: an index of Install.Trees, counted round.
	Tree int
	// Robots is the text of robots.txt; without one it answers 404.
	Robots string
}

func (c NginxConfig) tree(s NginxSite) Tree { return c.Install.Trees[s.Tree%len(c.Install.Trees)] }

// Nginx is a real web server with real documentation. It has no think time.
type Nginx struct {
	cfg   NginxConfig
	start func(*exec.Cmd) error
}

// NewNginx writes the configuration. Nothing runs yet.
func NewNginx(cfg NginxConfig, deps Deps) (*Nginx, error) {
	if cfg.Install == nil || len(cfg.Install.Trees) == 0 {
		return nil, errors.New("configure nginx: nothing is installed")
	}
	if cfg.Port == 0 {
		cfg.Port = 80
	}
	if deps.Start == nil {
		deps.Start = (*exec.Cmd).Start
	}
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	cfg.Dir = dir
	for _, s := range cfg.Sites {
		if s.Tree < 0 || !s.Addr.IsValid() || s.Host == "" ||
			strings.ContainsAny(s.Host, " \t\r\n;{}\"'\\$") || strings.ContainsAny(s.Robots, "'\\$") {
			return nil, fmt.Errorf("configure nginx: site %q at %v cannot be written", s.Host, s.Addr)
		}
	}
	x := &Nginx{cfg: cfg, start: deps.Start}
	if err := os.MkdirAll(filepath.Join(dir, "tmp"), 0o755); err != nil {
		return nil, fmt.Errorf("configure nginx: %w", err)
	}
	// A log of an earlier run would be counted, its pid be taken for a sign of life.
	for _, name := range []string{"access.log", "error.log", "nginx.pid"} {
		if err := os.Remove(x.file(name)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("configure nginx: %w", err)
		}
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

// account is a line of the configuration that has a root's nginx keep its user: in a user namespace there is no other.
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

// text is the configuration: one process, which a death signal ends whole, and which needs no other user.
func (c NginxConfig) text() string {
	var b strings.Builder
	dir := c.Dir
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
`, dir)
	known := map[netip.Addr]bool{}
	for _, s := range c.Sites {
		at := netip.AddrPortFrom(s.Addr, c.Port)
		if !known[s.Addr] {
			known[s.Addr] = true
			fmt.Fprintf(&b, "  server { listen %v default_server; return 421; }\n", at)
		}
		fmt.Fprintf(&b, "  server {\n    listen %v;\n    server_name %s;\n    root \"%s\";\n", at, s.Host, c.tree(s).Root)
		if s.Robots != "" {
			fmt.Fprintf(&b, "    location = /robots.txt { default_type text/plain; return 200 '%s'; }\n", s.Robots)
		}
		b.WriteString("  }\n")
	}
	b.WriteString("}\n")
	return b.String()
}

// Fronts are the first pages of all sites.
func (x *Nginx) Fronts() []string {
	var urls []string
	for _, s := range x.cfg.Sites {
		urls = append(urls, "http://"+authority(s.Host, x.cfg.Port)+x.cfg.tree(s).Start)
	}
	return urls
}

// Run runs nginx until the context ends, and calls ready once it listens.
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
		return fmt.Errorf("nginx: %w; its log says: %s", errors.Join(failure, err), lastLines(x.file("error.log"), 5))
	}
	return nil
}

// watch returns when the context ends, or with an error when nginx does not work.
func (x *Nginx) watch(ctx context.Context, ended <-chan struct{}, ready func()) error {
	look := time.NewTicker(nginxLook)
	defer look.Stop()
	late := time.NewTimer(nginxPatience)
	defer late.Stop()
	for listens := false; !listens; {
		select {
		case <-ctx.Done():
			return nil
		case <-ended:
			return errors.New("it ended at once")
		case <-late.C:
			return fmt.Errorf("it does not listen after %v", nginxPatience)
		case <-look.C:
			// It writes its process id when it has opened its sockets.
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

// stop ends nginx in order, or at once if it does not listen to that. Errors are those of a process that has ended.
func (x *Nginx) stop(cmd *exec.Cmd, ended <-chan struct{}) {
	late := time.NewTimer(nginxPatience)
	defer late.Stop()
	again := time.NewTicker(10 * nginxLook)
	defer again.Stop()
	for {
		// It notes the signal and looks when something wakes it: one that comes just before it goes to sleep is slept over.
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
			return
		case <-late.C:
			_ = cmd.Process.Kill()
			return
		case <-again.C:
		}
	}
}
