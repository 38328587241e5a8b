package main

import (
	"context"
	"debug/buildinfo"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"proxima/scripts/bench/origin/client"
)

// Scenario is what every crawler of one comparison meets. Equal scenarios give equal sites.
type Scenario struct {
	client.Config
	Concurrency int    `json:"concurrency"` // requests in parallel, over all sites
	ServerCPUs  string `json:"server_cpus"` // cores of the server, as taskset names them; any if empty
	CrawlerCPUs string `json:"crawler_cpus"`
}

// Validate reports the first field that cannot be run.
func (s Scenario) Validate() error {
	if s.Addresses > 250 { // of one network, which Proxima takes for its own
		return fmt.Errorf("addresses: %d is not within 1 to 250", s.Addresses)
	}
	if s.Concurrency < 1 || s.Concurrency > 1024 {
		return fmt.Errorf("concurrency: %d is not within 1 to 1024", s.Concurrency)
	}
	return s.Config.Validate()
}

// Files are the paths that the runners of crawlers may use.
type Files struct {
	Bench string // the folder scripts/bench
	Seeds string // front pages, one URL a line
	URLs  string // all pages, one URL a line; for the ceiling alone
	Temp  string // an empty folder of this run, below TMPDIR; removed afterwards
	// Profile is where Proxima's processor time goes, "" for nowhere.
	Profile string
}

func (f Files) bin(name string) string { return filepath.Join(f.Bench, ".build", "bin", name) }

type Crawler struct {
	Name string
	// Version returns the version, or an error if the crawler is not installed.
	Version func(ctx context.Context) (string, error)
	// Command returns the command line of a crawl. It may write a configuration below f.Temp.
	Command func(s Scenario, f Files) ([]string, error)
}

const (
	nameProxima = "proxima"
	nameCeiling = "ceiling"
	// Scrapy is Debian's package, so it needs Debian's interpreter.
	debianPython = "/usr/bin/python3"
)

// crawlers returns all crawlers in the order of the first round.
func crawlers(f Files) []Crawler {
	crawlee := filepath.Join(f.Bench, ".build", "crawlee")
	scrapy := "import platform, scrapy, twisted; print(f'{scrapy.__version__}, Twisted {twisted.__version__}, Python {platform.python_version()}')"
	return []Crawler{
		{nameCeiling, built(f.bin("bench-run")), func(s Scenario, f Files) ([]string, error) {
			return []string{f.bin("bench-run"), "-ceiling", f.URLs, "-concurrency", strconv.Itoa(s.Concurrency)}, nil
		}},
		{nameProxima, printed(`\S+, go[0-9.]+`, f.bin("proxima"), "version"), proximaCommand},
		{"colly", built(f.bin("bench-colly")), func(s Scenario, f Files) ([]string, error) {
			return []string{f.bin("bench-colly"), f.Seeds, strconv.Itoa(s.Concurrency)}, nil
		}},
		{"scrapy", printed(`.+`, debianPython, "-c", scrapy), func(s Scenario, f Files) ([]string, error) {
			return []string{debianPython, filepath.Join(f.Bench, "rivals", "scrapy", "crawl.py"), f.Seeds, strconv.Itoa(s.Concurrency)}, nil
		}},
		{"crawlee", printed(`.+`, "node", "-p", fmt.Sprintf("require(%q).version + ', Node ' + process.version",
			filepath.Join(crawlee, "node_modules", "@crawlee", "cheerio", "package.json"))), func(s Scenario, f Files) ([]string, error) {
			return []string{"node", filepath.Join(crawlee, "crawl.mjs"), f.Seeds, strconv.Itoa(s.Concurrency)}, nil
		}},
		{"wget2", printed(`[0-9]+\.[0-9.]+`, "wget2", "--version"), wget2Command},
	}
}

// proximaConfig is the node's configuration: a single node without peers, with robots.txt, without gaps between requests, and with as many
// parallel requests as the other crawlers.
const proximaConfig = `# Written by the benchmark for one run.
[fetch]
allow_prefixes = ["127.0.0.0/8"] # the sites are on loopback, which pages may not reach otherwise

[crawl]
fetchers = %d

[politeness]
min_gap = "0s"
factor = 0
own = ["127.0.1.0/24"] # one's own servers: no gap, requests in parallel
own_parallel = %d
`

// proximaCommand writes the configuration. The node ends with exit code 0 when nothing is left to crawl.
func proximaCommand(s Scenario, f Files) ([]string, error) {
	config := filepath.Join(f.Temp, "bench.toml")
	perServer := 1
	if s.Addresses == 1 {
		perServer = s.Concurrency
	}
	if err := os.WriteFile(config, fmt.Appendf(nil, proximaConfig, s.Concurrency, perServer), 0o644); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	command := []string{f.bin("proxima"), "node", "-config", config, "-data", filepath.Join(f.Temp, "data"), "-seeds", f.Seeds}
	if f.Profile != "" {
		command = append(command, "-cpuprofile", f.Profile)
	}
	return command, nil
}

// built returns the versions of a Go program's crawler module, if it has one, and of its toolchain.
func built(program string) func(context.Context) (string, error) {
	return func(context.Context) (string, error) {
		info, err := buildinfo.ReadFile(program)
		if err != nil {
			return "", fmt.Errorf("read the built program: %w", err)
		}
		for _, m := range info.Deps {
			if m.Path == "github.com/gocolly/colly/v2" {
				return m.Version + ", " + info.GoVersion, nil
			}
		}
		return info.GoVersion, nil
	}
}

// printed returns the first part of a command's output that has a form.
func printed(form, name string, args ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		out, err := exec.CommandContext(ctx, name, args...).Output()
		if err != nil {
			return "", fmt.Errorf("run %s: %w", name, err)
		}
		return string(regexp.MustCompile(form).Find(out)), nil
	}
}

// wget2Command returns the command line, since wget2 needs no script.
func wget2Command(s Scenario, f Files) ([]string, error) {
	var hosts []string
	for i := range s.Addresses {
		host, _, _ := strings.Cut(s.Host(i), ":")
		hosts = append(hosts, host)
	}
	return []string{
		"wget2",
		"--no-config", "--quiet", "--progress=none", // neither the user's settings nor output
		"--recursive", "--level=0", "--robots=on", // all depths
		"--span-hosts", "--domains=" + strings.Join(hosts, ","), // across the sites
		"--max-threads=" + strconv.Itoa(s.Concurrency),
		"--delete-after", "--directory-prefix=" + f.Temp, // keeps no file
		"--no-compression", "--no-cookies", "--no-netrc", "--no-proxy", // nothing here needs them
		"--input-file=" + f.Seeds,
	}, nil
}

// ceiling downloads a list of URLs, n at a time, with net/http and discards the bodies. It shows what one core of this machine can download
// without parsing, lookups, queues or storage. No crawler that uses net/http can be faster on the same core.
func ceiling(file string, n int) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read URLs: %w", err)
	}
	urls := strings.Fields(string(text))
	client := &http.Client{Transport: &http.Transport{
		MaxIdleConns:        0, // no limit
		MaxIdleConnsPerHost: n,
		DisableCompression:  true,
	}}
	var next, failed atomic.Int64
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			for {
				i := next.Add(1) - 1
				if i >= int64(len(urls)) {
					return
				}
				resp, err := client.Get(urls[i])
				if err == nil {
					_, err = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
				if err != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if f := failed.Load(); f > 0 {
		return fmt.Errorf("%d of %d URLs failed", f, len(urls))
	}
	return nil
}
