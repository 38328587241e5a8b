package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
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
	Version func(ctx context.Context, f Files) (string, error)
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
func crawlers() []Crawler {
	return []Crawler{
		{Name: nameCeiling, Version: versionOfProgram("bench-ceiling"), Command: func(s Scenario, f Files) ([]string, error) {
			return []string{f.bin("bench-ceiling"), f.URLs, strconv.Itoa(s.Concurrency)}, nil
		}},
		{Name: nameProxima, Version: proximaVersion, Command: proximaCommand},
		{Name: "colly", Version: versionOfProgram("bench-colly"), Command: func(s Scenario, f Files) ([]string, error) {
			return []string{f.bin("bench-colly"), f.Seeds, strconv.Itoa(s.Concurrency)}, nil
		}},
		{Name: "scrapy", Version: scrapyVersion, Command: func(s Scenario, f Files) ([]string, error) {
			return []string{debianPython, filepath.Join(f.Bench, "rivals", "scrapy", "crawl.py"), f.Seeds, strconv.Itoa(s.Concurrency)}, nil
		}},
		{Name: "crawlee", Version: crawleeVersion, Command: func(s Scenario, f Files) ([]string, error) {
			return []string{"node", filepath.Join(f.Bench, ".build", "crawlee", "crawl.mjs"), f.Seeds, strconv.Itoa(s.Concurrency)}, nil
		}},
		{Name: "wget2", Version: wget2Version, Command: wget2Command},
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

// proximaVersion returns the commit that the program was built from.
func proximaVersion(ctx context.Context, f Files) (string, error) {
	if _, err := os.Stat(f.bin("proxima")); err != nil {
		return "", fmt.Errorf("find the built program: %w", err)
	}
	commit, err := output(ctx, "git", "-C", f.Bench, "rev-parse", "--short", "HEAD")
	if err != nil {
		return "unknown", nil // it was built without version control
	}
	return strings.TrimSpace(commit), nil
}

// versionOfProgram returns the versions of a Go program's toolchain and of its crawler module, if it has one.
func versionOfProgram(name string) func(context.Context, Files) (string, error) {
	return func(ctx context.Context, f Files) (string, error) {
		out, err := output(ctx, "go", "version", "-m", f.bin(name))
		if err != nil {
			return "", err
		}
		version := regexp.MustCompile(`go[0-9]\S*`).FindString(out)
		if m := regexp.MustCompile(`gocolly/colly/v2\s+(v\S+)`).FindStringSubmatch(out); m != nil {
			return m[1] + ", " + version, nil
		}
		return version, nil
	}
}

func scrapyVersion(ctx context.Context, _ Files) (string, error) {
	return output(ctx, debianPython, "-c",
		"import platform, scrapy, twisted; print(f'{scrapy.__version__}, Twisted {twisted.__version__}, Python {platform.python_version()}')")
}

func crawleeVersion(ctx context.Context, f Files) (string, error) {
	dir := filepath.Join(f.Bench, ".build", "crawlee")
	text, err := os.ReadFile(filepath.Join(dir, "node_modules", "@crawlee", "cheerio", "package.json"))
	if err != nil {
		return "", fmt.Errorf("read package: %w", err)
	}
	m := regexp.MustCompile(`"version":\s*"([^"]+)"`).FindSubmatch(text)
	if m == nil {
		return "", fmt.Errorf("no version in the package of crawlee")
	}
	node, err := output(ctx, "node", "--version")
	if err != nil {
		return "", err
	}
	// Node looks for imports in node_modules beside the script. Copy the script of this tree there.
	script, err := os.ReadFile(filepath.Join(f.Bench, "rivals", "crawlee", "crawl.mjs"))
	if err != nil {
		return "", fmt.Errorf("read script: %w", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "crawl.mjs"), script, 0o644); err != nil {
		return "", fmt.Errorf("copy script: %w", err)
	}
	return string(m[1]) + ", Node " + node, nil
}

func wget2Version(ctx context.Context, _ Files) (string, error) {
	out, err := output(ctx, "wget2", "--version")
	if err != nil {
		return "", err
	}
	return regexp.MustCompile(`[0-9]+\.[0-9.]+`).FindString(out), nil
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

// output runs a command and returns the first words of its output.
func output(ctx context.Context, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, name, args...).Output()
	if err != nil {
		return "", fmt.Errorf("run %s: %w", name, err)
	}
	return strings.TrimSpace(string(out)), nil
}
