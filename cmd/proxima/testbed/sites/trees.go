package sites

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Tree is documentation in HTML that a Debian package brings.
type Tree struct {
	Name string
	// Root is its directory, Start the path of its first page.
	Root, Start string
	// Package is what to install for it.
	Package string
}

func trees() []Tree {
	return []Tree{
		{"python", "/usr/share/doc/python3-doc/html", "/", "python3-doc"},
		{"reference", "/usr/share/debian-reference", "/", "debian-reference-en"},
		{"git", "/usr/share/doc/git-doc", "/", "git-doc"},
		{"bash", "/usr/share/doc/bash", "/bashref.html", "bash-doc"},
	}
}

// Install is what this machine has for real sites.
type Install struct {
	// Path is the program, Trees what it can serve; never empty.
	Path  string
	Trees []Tree
	// Missing are the packages of trees that are not there. It works without them.
	Missing []string
}

// FindNginx looks for nginx and for documentation to serve. The error says what to install; built-in pages need neither.
func FindNginx() (*Install, error) {
	in := &Install{}
	var errs []error
	// An ordinary user's path does not lead there.
	for _, name := range []string{"nginx", "/usr/sbin/nginx", "/usr/local/sbin/nginx"} {
		if path, err := exec.LookPath(name); err == nil {
			in.Path = path
			break
		}
	}
	if in.Path == "" {
		errs = append(errs, errors.New("nginx is not installed (package nginx-light)"))
	}
	for _, t := range trees() {
		if pages, _ := filepath.Glob(filepath.Join(t.Root, "*.html")); len(pages) == 0 {
			in.Missing = append(in.Missing, t.Package)
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
		errs = append(errs, fmt.Errorf("there is no documentation to serve (any of the packages %s)", strings.Join(in.Missing, ", ")))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	return in, nil
}

// lastLines are the last lines of a file, for people.
func lastLines(path string, most int) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(b)), "\n")
	return strings.Join(lines[max(0, len(lines)-most):], "\n")
}
