package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"proxima/node/bell"
	"proxima/node/peer"
	"proxima/node/runlog"
)

// silenceFor is how long one warning of an unavailable peer stands for all others. While peers start, end or are dead, each part of a node
// that calls them would warn again and again.
const silenceFor = 10 * time.Second

// warn logs a problem that the node lives with.
func (n *Node) warn(err error) {
	text := err.Error()
	if errors.Is(err, peer.ErrUnavailable) {
		silent, heard := n.warnings.Heard(time.Now(), silenceFor)
		if !heard {
			return
		}
		if silent > 0 {
			text += fmt.Sprintf(" (and %d other calls failed)", silent)
		}
	}
	n.runlog.Events().Warn(runlog.EventWarning, runlog.KeyReason, public(text))
}

// followFile has a file read at each interval, to follow its changes. It warns of each error once.
func (n *Node) followFile(ctx context.Context, every time.Duration, read func() error) error {
	warned := ""
	return bell.Every(ctx, every, func() {
		err := read()
		switch {
		case err == nil:
			warned = ""
		case err.Error() != warned:
			warned = err.Error()
			n.warn(err)
		}
	})
}

var (
	// userInfo matches a name and a password in a URL. Both may be secret.
	userInfo = regexp.MustCompile(`(://)[^/?#"\s]*@`)
	// secretParam matches a parameter of a URL whose name is that of a secret.
	secretParam = regexp.MustCompile(`((?i)[?&][^=&"\s]*(?:token|key|secret|pass|auth|sig)[^=&"\s]*=)[^&#"\s]+`)
)

// Public is Text without secrets, for logs: without passwords in URLs, and without the values of header fields.
func (c Config) Public() string {
	c.Site = slices.Clone(c.Site)
	for i, s := range c.Site {
		c.Site[i].Headers = maps.Clone(s.Headers)
		for name := range s.Headers {
			c.Site[i].Headers[name] = "xxxxx"
		}
	}
	return public(c.Text())
}

// public removes passwords and tokens from the URLs in a text.
func public(text string) string {
	return secretParam.ReplaceAllString(userInfo.ReplaceAllString(text, "${1}xxxxx@"), "${1}xxxxx")
}

// exposed returns an error that names the node's files and directories that everybody on the machine may read. The node makes them readable
// by its user only. It does not change older ones, because somebody may want them as they are.
func exposed(data, logs string) error {
	private := func(path string) bool {
		info, err := os.Stat(path)
		return err != nil || info.Mode().Perm()&0o007 == 0
	}
	open := slices.DeleteFunc([]string{filepath.Join(data, "frontier"), filepath.Join(data, "node.json")}, private)
	if !private(logs) {
		files, err := os.ReadDir(logs)
		if err != nil {
			return fmt.Errorf("look at the logs: %w", err)
		}
		if slices.ContainsFunc(files, func(f fs.DirEntry) bool {
			return strings.Contains(f.Name(), ".jsonl") && !private(filepath.Join(logs, f.Name()))
		}) {
			open = append(open, logs)
		}
	}
	if len(open) == 0 {
		return nil
	}
	return errors.New("everybody on this machine may read what is crawled: chmod -R o= " + strings.Join(open, " "))
}
