package fleet

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"proxima/node"
)

// Collected says what Collect found and fetched.
type Collected struct {
	Files, New int
	Bytes      int64
}

// remoteFile is a file on a host. Its name is a path with slashes.
type remoteFile struct {
	size, seconds int64 // seconds is when it was changed
	name          string
}

// text says whether the file is compressed before it is fetched.
func (f remoteFile) text() bool {
	return slices.Contains([]string{".jsonl", ".out", ".txt"}, path.Ext(f.name))
}

// local is its path here.
func (f remoteFile) local() string {
	if f.text() {
		return f.name + ".gz"
	}
	return f.name
}

// Collect fetches the logs below the directory on a host, and other files or patterns, into a folder here. Texts come compressed. It skips files
// that are here already with the same size and age, so that it goes on where it broke off. A folder holds the logs of one node.
func (s SSH) Collect(ctx context.Context, h Host, folder string, others ...string) (c Collected, err error) {
	at := ""
	err = s.talk(ctx, h, func(in io.WriteCloser, out *bufio.Reader) error {
		line, err := out.ReadString('\n')
		if err != nil {
			return errBroken
		}
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("make folder of a host: %w", err)
		}
		if err := sameNode(folder, line); err != nil {
			return err
		}
		root, err := os.OpenRoot(folder) // a host must not write elsewhere
		if err != nil {
			return fmt.Errorf("open folder of a host: %w", err)
		}
		defer root.Close()
		at = "the list of files"
		wanted, err := wanted(root, out, &c.Files)
		if err != nil {
			return err
		}
		go func() { // the host answers while it reads
			for _, f := range wanted {
				filter := "cat"
				if f.text() {
					filter = "gzip"
				}
				fmt.Fprintln(in, f.size, filter, f.name)
			}
			_ = in.Close()
		}()
		for _, f := range wanted {
			at = f.name
			n, err := fetch(root, f, out)
			if err != nil {
				return err
			}
			c.New, c.Bytes = c.New+1, c.Bytes+n
		}
		at = ""
		return nil
	}, append([]string{"collect"}, others...)...)
	if fault, ok := errors.AsType[*Fault](err); ok && at != "" {
		fault.Text = fmt.Sprintf("broke off in %s; what came before it is kept: %s", at, fault.Text)
	}
	return c, err
}

// sameNode returns an error if the folder has the logs of another node than the one whose identity is given. It records a new one.
func sameNode(folder, text string) error {
	var id node.ID
	if json.Unmarshal([]byte(text), &id) != nil || id.Node == "" {
		return nil // it is not kept there
	}
	path := filepath.Join(folder, ".node")
	before, err := os.ReadFile(path)
	if was := strings.TrimSpace(string(before)); err == nil && was != "" && was != id.Node {
		return fmt.Errorf("%s holds the logs of another node, %s: choose another folder", folder, was)
	}
	if err := os.WriteFile(path, []byte(id.Node+"\n"), 0o644); err != nil {
		return fmt.Errorf("record the node: %w", err)
	}
	return nil
}

// wanted reads the host's list and returns the files that are not here. Rotated logs come last: if the rest does not arrive, lines may be
// missing, but none is there twice.
func wanted(root *os.Root, out *bufio.Reader, all *int) (list []remoteFile, err error) {
	for {
		var f remoteFile
		if _, err := fmt.Fscanln(out, &f.size, &f.seconds, &f.name); err != nil {
			return nil, errBroken
		}
		if f.name == "." {
			break
		}
		if *all++; !has(root, f) {
			list = append(list, f)
		}
	}
	rotated := func(f remoteFile) int { return strings.Count(path.Base(f.name), "-") }
	slices.SortStableFunc(list, func(a, b remoteFile) int { return cmp.Compare(rotated(a), rotated(b)) })
	return list, nil
}

// has says whether a file is in the folder, with its size and age.
func has(root *os.Root, f remoteFile) bool {
	at, err := root.Open(f.local())
	if err != nil {
		return false
	}
	defer at.Close()
	info, err := at.Stat()
	if err != nil || info.ModTime().Unix() != f.seconds {
		return false
	}
	if !f.text() {
		return info.Size() == f.size
	}
	var length [4]byte // the end of a compressed file has the length of its content, modulo 2^32
	_, err = at.ReadAt(length[:], max(0, info.Size()-4))
	return err == nil && binary.LittleEndian.Uint32(length[:]) == uint32(f.size)
}

// fetch reads a file that the host sends after its length. It keeps only whole ones.
func fetch(root *os.Root, f remoteFile, out *bufio.Reader) (n int64, err error) {
	const part = ".part"
	if _, err := fmt.Fscanln(out, &n); err != nil {
		return 0, errBroken
	}
	to, err := root.Create(part)
	if err != nil {
		return 0, fmt.Errorf("write logs: %w", err)
	}
	defer func() { _ = root.Remove(part) }() // it is there only after an error
	_, err = io.CopyN(to, out, n)
	if err = errors.Join(err, to.Close(), root.MkdirAll(path.Dir(f.name), 0o755)); err == nil {
		changed := time.Unix(f.seconds, 0)
		err = errors.Join(root.Chtimes(part, changed, changed), root.Rename(part, f.local()))
	}
	if errors.Is(err, io.EOF) {
		return 0, errBroken
	}
	return n, err
}
