package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"proxima/scripts/lab"
)

type site struct {
	dir string
	// gate serves every host by name. Programs that cannot map names use it as HTTP proxy.
	gate   *url.URL
	seeds  []string
	client *http.Client
}

func (s *site) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "scripts/site.sh", args...)
	cmd.Env = append(os.Environ(), "SITE_PORT="+s.gate.Port())
	return cmd
}

// startSite serves the sites at a free port.
func startSite(ctx context.Context, dir string) (*site, error) {
	free, err := lab.Addresses("127.0.2.9", 1) // the gate of scripts/site.sh
	if err != nil {
		return nil, err
	}
	s := &site{dir: dir, gate: &url.URL{Scheme: "http", Host: free[0]}}
	cmd := s.command(ctx, "start", dir)
	// The servers that stay in the background would keep a pipe open, so the script inherits stderr.
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		err = fmt.Errorf("start sites: %w", err)
		if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() == 3 {
			err = lab.Missing{Err: err}
		}
		return nil, err
	}
	urls, err := s.command(ctx, "urls").Output()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("list seeds: %w", err), s.stop())
	}
	s.seeds = strings.Fields(string(urls))
	s.client = &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyURL(s.gate), DisableCompression: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Timeout:       10 * time.Second,
	}
	return s, nil
}

func (s *site) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	if err := s.command(ctx, "stop", s.dir).Run(); err != nil {
		return fmt.Errorf("stop sites: %w", err)
	}
	return nil
}

type entry struct {
	Host, URI, Type, Agent string
	Status                 int
}

func (s *site) log() ([]entry, error) {
	f, err := os.Open(filepath.Join(s.dir, "access.log"))
	if err != nil {
		return nil, fmt.Errorf("read access log: %w", err)
	}
	defer f.Close()
	var all []entry
	for lines := json.NewDecoder(f); lines.More(); {
		var e entry
		if err := lines.Decode(&e); err != nil {
			return nil, fmt.Errorf("read access log: %w", err)
		}
		all = append(all, e)
	}
	return all, nil
}

// reading is what one program was given. URLs are keys such as "python.test/glossary.html".
type reading struct {
	pages  map[string]bool // answered with 200 and HTML
	others map[string]bool // answered with 200 and another type
	asked  map[string]int  // all requests except for robots.txt
	early  []string        // requests before the host's robots.txt
}

func readingOf(log []entry, agent string) reading {
	r := reading{pages: map[string]bool{}, others: map[string]bool{}, asked: map[string]int{}}
	robots := map[string]bool{}
	for _, e := range log {
		if !strings.HasPrefix(e.Agent, agent) {
			continue
		}
		if e.URI == "/robots.txt" {
			robots[e.Host] = true
			continue
		}
		u := e.Host + e.URI
		r.asked[u]++
		if !robots[e.Host] {
			r.early = append(r.early, u)
		}
		switch {
		case e.Status != http.StatusOK:
		case strings.HasPrefix(e.Type, "text/html"):
			r.pages[u] = true
		default:
			r.others[u] = true
		}
	}
	return r
}

func runProxima(ctx context.Context, program, dir string, s *site) error {
	file, data := filepath.Join(dir, "proxima.toml"), filepath.Join(dir, "data")
	config, err := s.command(ctx, "config").Output()
	if err := errors.Join(err, os.WriteFile(file, config, 0o644)); err != nil {
		return fmt.Errorf("write config: %w", err)
	}
	args := append([]string{"node", "-config", file, "-data", data, "-quiet"}, s.seeds...)
	if out, err := exec.CommandContext(ctx, program, args...).CombinedOutput(); err != nil {
		return fmt.Errorf("run proxima: %w\n%s", err, out)
	}
	return nil
}

func runWget(ctx context.Context, dir string, s *site) error {
	into := filepath.Join(dir, "wget2")
	if err := os.Mkdir(into, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	// Without --span-hosts it keeps to the hosts of the seeds. https, too, goes to the gate, which refuses it: nothing
	// leaves the machine.
	args := append([]string{"--no-config", "--quiet", "--http-proxy=" + s.gate.String(), "--https-proxy=" + s.gate.String(),
		"--recursive", "--level=inf", "--robots=on", "--tries=1", "--max-threads=4"}, s.seeds...)
	cmd := exec.CommandContext(ctx, "wget2", args...)
	cmd.Dir = into
	out, err := cmd.CombinedOutput()
	if e, ok := errors.AsType[*exec.ExitError](err); ok && e.ExitCode() == 8 { // some answer was an error: there are dead links
		err = nil
	}
	if err != nil {
		return fmt.Errorf("run wget2: %w\n%s", err, out)
	}
	return nil
}
