// Package client starts the server of the benchmarks as a process and reads its counts.
package client

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"syscall"
	"time"

	"proxima/scripts/lab"
)

// Config describes the generated sites. Equal configs give equal bytes.
type Config struct {
	Addresses int    `json:"addresses"` // number of sites, each at its own address
	Pages     int    `json:"pages"`     // pages per site
	Port      int    `json:"port"`      // TCP port of every site
	Seed      uint64 `json:"seed"`      // seed of every draw
	// Brief makes pages small, about 4 kB with 20 links, so that hundreds of thousands of them fit into memory.
	Brief bool          `json:"-"`
	Think time.Duration `json:"-"` // before each page
}

// Validate reports the first field that cannot be served.
func (c Config) Validate() error {
	switch {
	case c.Addresses < 1 || c.Addresses > 5000:
		return fmt.Errorf("addresses: %d is not within 1 to 5000", c.Addresses)
	case c.Pages < 1 || c.Pages > 100_000:
		return fmt.Errorf("pages: %d is not within 1 to 100000", c.Pages)
	case c.Port < 2 || c.Port > 65535:
		return fmt.Errorf("port: %d is no port, or none is below it", c.Port)
	}
	return nil
}

// Host returns the authority of site i.
func (c Config) Host(i int) string { return fmt.Sprintf("127.0.%d.%d:%d", 1+i/250, 1+i%250, c.Port) }

// Seeds returns the front pages of all sites.
func (c Config) Seeds() (urls []string) {
	for i := range c.Addresses {
		urls = append(urls, "http://"+c.Host(i)+"/")
	}
	return urls
}

// Stats is the answer of /_stats. The crawler's window runs from its first request of any kind to its last complete page.
type Stats struct {
	Total       int     `json:"total"`         // pages that the sites have
	Pages       int64   `json:"pages"`         // complete page answers
	Distinct    int64   `json:"distinct"`      // pages answered at least once
	Repeats     int64   `json:"repeats"`       // pages minus distinct
	Robots      int64   `json:"robots"`        // answers of robots.txt
	Disallowed  int64   `json:"disallowed"`    // requests below a path that robots.txt forbids
	Early       int64   `json:"before_robots"` // page requests before the first robots.txt of their host
	Other       int64   `json:"other"`         // requests that are none of these: unknown paths, other methods
	Bytes       int64   `json:"bytes"`         // bytes of page bodies
	Connections int64   `json:"connections"`   // TCP connections accepted
	PeakOpen    int64   `json:"peak_open"`     // most connections open at one time
	Seconds     float64 `json:"seconds"`       // the window
	// CPU is the processor time of the server since the last reset.
	CPU time.Duration `json:"cpu_ns"`
	// Agents has the pages of each User-Agent.
	Agents map[string]Agent `json:"agents,omitempty"`
}

// Agent has the pages of a User-Agent.
type Agent struct {
	Pages int64     `json:"pages"`
	First time.Time `json:"first"` // when its first page was complete
}

// Origin is the running server. Not safe for concurrent use.
type Origin struct {
	process *lab.Process
	control string
	client  *http.Client
}

// Start runs the program of the server, with the words of before in front of it, and waits until the sites can be downloaded. The port below
// that of the sites serves the counts.
func Start(ctx context.Context, program string, c Config, before ...string) (*Origin, error) {
	o := &Origin{control: fmt.Sprintf("127.0.0.1:%d", c.Port-1), client: &http.Client{Timeout: 30 * time.Second}}
	argv := append(before, program, fmt.Sprintf("-brief=%t", c.Brief), "-addresses", fmt.Sprint(c.Addresses), "-pages", fmt.Sprint(c.Pages),
		"-port", fmt.Sprint(c.Port), "-control", o.control, "-seed", fmt.Sprint(c.Seed), "-think", c.Think.String())
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	// The kernel ends the server when this program ends for any reason.
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var err error
	if o.process, err = lab.Start(cmd); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	lab.Within(ctx, 2*time.Minute, func() bool {
		_, err = o.Stats(ctx)
		return err == nil || !o.process.Running()
	})
	switch {
	case err == nil:
		return o, nil
	case ctx.Err() != nil: // the end of the server follows from it
		o.Stop()
		return nil, fmt.Errorf("start server: %w", ctx.Err())
	case !o.process.Running():
		return nil, fmt.Errorf("start server: it ended; is its port taken?\n%s", o.process.Tail())
	}
	o.Stop()
	return nil, fmt.Errorf("start server: not ready within 2 minutes: %w", err)
}

// Stop ends the server.
func (o *Origin) Stop() { o.process.Kill() }

// Stats reads the counts since the last reset.
func (o *Origin) Stats(ctx context.Context) (Stats, error) {
	var s Stats
	text, err := o.call(ctx, http.MethodGet, "/_stats")
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal(text, &s); err != nil {
		return s, fmt.Errorf("decode counts: %w", err)
	}
	return s, nil
}

// Reset zeroes the counts.
func (o *Origin) Reset(ctx context.Context) error {
	_, err := o.call(ctx, http.MethodPost, "/_reset")
	return err
}

// URLs returns the URLs of all pages, one on each line.
func (o *Origin) URLs(ctx context.Context) ([]byte, error) {
	return o.call(ctx, http.MethodGet, "/_urls")
}

func (o *Origin) call(ctx context.Context, method, path string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+o.control+path, nil)
	if err != nil {
		return nil, fmt.Errorf("ask server for %s: %w", path, err)
	}
	resp, err := o.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask server for %s: %w", path, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read server's %s: %w", path, err)
	}
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask server for %s: status %d", path, resp.StatusCode)
	}
	return text, nil
}
