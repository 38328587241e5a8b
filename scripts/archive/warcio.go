package archive

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// WarcioVersion is the release of the npm package warcio, which other projects read archives with.
const WarcioVersion = "2.4.11"

// Warcio runs scripts that read archives with warcio.
type Warcio struct{ node, module string }

// FindWarcio installs warcio once, in the user's cache directory. It fails if node or npm is missing, or if npm cannot install warcio.
func FindWarcio(ctx context.Context) (w Warcio, err error) {
	npm, missing := exec.LookPath("npm")
	w.node, err = exec.LookPath("node")
	cache, e := os.UserCacheDir()
	if err = errors.Join(err, missing, e); err != nil {
		return w, err
	}
	dir := filepath.Join(cache, "proxima-test", "warcio-"+WarcioVersion)
	w.module = filepath.Join(dir, "node_modules", "warcio", "dist", "index.js")
	if _, err := os.Stat(w.module); err == nil {
		return w, nil
	}
	install := exec.CommandContext(ctx, npm, "install", "--prefix", dir, "--no-audit", "--no-fund", "--ignore-scripts", "warcio@"+WarcioVersion)
	if out, err := install.CombinedOutput(); err != nil {
		return w, fmt.Errorf("npm cannot install warcio: %w\n%s", err, out)
	}
	return w, nil
}

// Run runs a script on some archives. A complaint of warcio is an error: it warns of records whose length is wrong.
func (w Warcio) Run(ctx context.Context, script string, files ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, w.node, append([]string{script, w.module}, files...)...)
	var complaints bytes.Buffer
	cmd.Stderr = &complaints
	out, err := cmd.Output()
	if err != nil || complaints.Len() > 0 {
		return nil, errors.Join(errors.New("warcio: "+complaints.String()), err)
	}
	return out, nil
}

// IndexFields returns what the lines of a CDXJ index say in one form and order, without some fields: the writings of what is not UTF-8 differ.
func IndexFields(lines []string, without ...string) (all []string, err error) {
	for _, line := range lines {
		key, text, _ := strings.Cut(line, " {")
		var l map[string]string
		if err := json.Unmarshal([]byte("{"+text), &l); err != nil {
			return nil, fmt.Errorf("read a line of an index: %w in %q", err, line)
		}
		for _, name := range without {
			delete(l, name)
		}
		all = append(all, fmt.Sprint(key, l))
	}
	slices.Sort(all)
	return all, nil
}
