package sites

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tree is the HTML documentation of a Debian package.
type Tree struct {
	// Package is the Debian package to install.
	Package string
	// Root is the directory, Start the path of the first page.
	Root, Start string
}

func trees() []Tree {
	return []Tree{
		{"python3-doc", "/usr/share/doc/python3-doc/html", "/"},
		{"debian-reference-en", "/usr/share/debian-reference", "/"},
		{"git-doc", "/usr/share/doc/git-doc", "/"},
		{"bash-doc", "/usr/share/doc/bash", "/bashref.html"},
	}
}

// Install is the software on this machine for real sites: the nginx program and at least one tree for it to serve.
type Install struct {
	Path  string
	Trees []Tree
}

// FindNginx looks for nginx and for documentation to serve. Its error says what to install. Generated pages need neither.
func FindNginx() (*Install, error) {
	in := &Install{}
	var errs []error
	// sbin is not in the PATH of ordinary users.
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			in.Path = path
			break
		}
	}
	if in.Path == "" {
		errs = append(errs, errors.New("nginx is not installed (package nginx-light)"))
	}
	var missing []string
	for _, t := range trees() {
		if pages, _ := filepath.Glob(filepath.Join(t.Root, "*.html")); len(pages) == 0 {
			missing = append(missing, t.Package)
			continue
		}
		root, err := filepath.EvalSymlinks(t.Root)
		if err != nil {
			return nil, fmt.Errorf("look for documentation: %w", err)
		}
		t.Root = root
		in.Trees = append(in.Trees, t)
	}
	if len(in.Trees) == 0 {
		errs = append(errs, fmt.Errorf("there is no documentation to serve (any of the packages %s)", strings.Join(missing, ", ")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return in, nil
}

// LastLines returns the last lines of a file, or "" if it cannot be read.
func LastLines(path string, most int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
