package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"time"
)

// Stats are the server's counts of one crawl; the server's own Stats tells what each is.
type Stats struct {
	Total       int     `json:"total"`
	Pages       int64   `json:"pages"`
	Distinct    int64   `json:"distinct"`
	Repeats     int64   `json:"repeats"`
	Robots      int64   `json:"robots"`
	Disallowed  int64   `json:"disallowed"`
	Early       int64   `json:"before_robots"`
	Other       int64   `json:"other"`
	Bytes       int64   `json:"bytes"`
	Connections int64   `json:"connections"`
	PeakOpen    int64   `json:"peak_open"`
	Seconds     float64 `json:"seconds"`
}

// Origin is the running server of a scenario. Not safe for concurrent use.
type Origin struct {
	cmd     *exec.Cmd
	control string
	client  *http.Client
	exited  chan struct{}
}

// startOrigin starts the server on its cores and waits until it has generated its sites.
func startOrigin(ctx context.Context, s Scenario, f Files) (*Origin, error) {
	o := &Origin{
		control: fmt.Sprintf("127.0.0.1:%d", s.Port-1),
		client:  &http.Client{Timeout: 30 * time.Second},
		exited:  make(chan struct{}),
	}
	argv := []string{
		f.bin("bench-origin"), "-addresses", strconv.Itoa(s.Addresses), "-pages", strconv.Itoa(s.Pages),
		"-port", strconv.Itoa(s.Port), "-seed", strconv.FormatUint(s.Seed, 10), "-control", o.control,
	}
	if s.ServerCPUs != "" {
		argv = append([]string{"taskset", "-c", s.ServerCPUs}, argv...)
	}
	o.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	o.cmd.Stderr = os.Stderr
	// The server ends with this program, however that ends.
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := o.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start server: %w", err)
	}
	go func() {
		_ = o.cmd.Wait() // its exit shows in the requests that fail
		close(o.exited)
	}()
	deadline := time.NewTimer(2 * time.Minute)
	defer deadline.Stop()
	for {
		if _, err := o.stats(ctx); err == nil {
			return o, nil
		}
		select {
		case <-o.exited:
			return nil, errors.New("start server: it ended; is its port taken?")
		case <-ctx.Done():
			o.stop()
			return nil, fmt.Errorf("start server: %w", ctx.Err())
		case <-deadline.C:
			o.stop()
			return nil, errors.New("start server: not ready within 2 minutes")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (o *Origin) stop() {
	_ = o.cmd.Process.Kill()
	<-o.exited
}

func (o *Origin) stats(ctx context.Context) (Stats, error) {
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

func (o *Origin) reset(ctx context.Context) error {
	_, err := o.call(ctx, http.MethodPost, "/_reset")
	return err
}

func (o *Origin) urls(ctx context.Context) ([]byte, error) {
	return o.call(ctx, http.MethodGet, "/_urls")
}

func (o *Origin) cpu() (time.Duration, error) { return cpuTime(o.cmd.Process.Pid) }

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
