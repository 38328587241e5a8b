package lab

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Killed is a node that crawls a site on one server of this machine and is killed repeatedly.
type Killed struct {
	Proxima, Dir           string
	Kills, Pages, Fetchers int
	Seed                   uint64
	Think                  time.Duration
}

// Subnet is the network of the site's addresses.
const Subnet = "127.0.3."

const killedConfig = `# Written by a check for one life of the node. The version in the User-Agent identifies the life.
[crawl]
fetchers = %d
patience = "5s"

[scope]
seed_scope = "host"

[politeness]
own = ["127.0.3.0/24"]
own_gap = "0s"
own_parallel = %d

[fetch]
user_agent = "Proxima/0.%d"
allow_prefixes = ["127.0.3.0/24"]

%s`

// Flags defines the flags of a check, with its defaults for kills and pages.
func (k *Killed) Flags(kills, pages int) {
	flag.StringVar(&k.Proxima, "proxima", "", "`program` to check; built from ./cmd/proxima if empty")
	flag.StringVar(&k.Dir, "dir", "", "new `directory` for everything that the run leaves, kept afterwards; a temporary one if empty")
	flag.IntVar(&k.Kills, "kills", kills, "`number` of kills")
	flag.IntVar(&k.Pages, "pages", pages, "`number` of pages of the site")
	flag.IntVar(&k.Fetchers, "fetchers", 8, "`number` of downloads at once")
	flag.Uint64Var(&k.Seed, "seed", 1, "`seed` of the kills' moments")
	flag.DurationVar(&k.Think, "think", 20*time.Millisecond, "mean `time` until the site answers; at most twice as long")
}

// Parse reads the flags. Wrong ones end the program.
func (k *Killed) Parse() {
	flag.Parse()
	if flag.NArg() > 0 || k.Kills < 0 || k.Pages < 1 || k.Fetchers < 1 || k.Kills > k.Pages {
		flag.Usage()
		os.Exit(2)
	}
}

// Open creates the folder, builds the program unless one is named, and serves the site until end is called.
func (k *Killed) Open(ctx context.Context, name string) (site *Site, end func() error, err error) {
	var remove func()
	if k.Dir, remove, err = Folder(k.Dir, name); err != nil {
		return nil, nil, err
	}
	if k.Proxima == "" {
		if k.Proxima, err = Build(ctx, k.Dir, "./cmd/proxima"); err != nil {
			remove()
			return nil, nil, err
		}
	}
	l := NewLayout(Subnet, k.Pages, 1, 1)
	l.Redirects = 25
	if site, err = Serve(l, k.Think); err != nil {
		remove()
		return nil, nil, err
	}
	return site, func() error {
		defer remove()
		return site.Close()
	}, nil
}

// Data returns the directory of the node's data.
func (k *Killed) Data() string { return filepath.Join(k.Dir, "data") }

// Start starts a life of the node, with sections added to its configuration.
func (k *Killed) Start(ctx context.Context, site *Site, life int, sections string) (*Process, error) {
	file := filepath.Join(k.Dir, "node.toml")
	if err := os.WriteFile(file, fmt.Appendf(nil, killedConfig, k.Fetchers, k.Fetchers, life, sections), 0o644); err != nil {
		return nil, fmt.Errorf("write config: %w", err)
	}
	return Start(exec.CommandContext(ctx, k.Proxima, "node", "-quiet", "-config", file, "-data", k.Data(), site.URL(0, 0)))
}

// Last waits until the last life, which is not killed, has ended.
func (k *Killed) Last(ctx context.Context, node *Process) error {
	if err := node.Wait(); err != nil {
		return fmt.Errorf("life %d, which was not killed: %w\n%s", k.Kills, errors.Join(err, ctx.Err()), node.Tail())
	}
	return nil
}
