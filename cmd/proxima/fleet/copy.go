package fleet

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"debug/elf"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// File is a file for hosts. Its owner alone may read it.
type File struct {
	name string
	mode int64
	sum  [sha256.Size]byte
	text []byte
}

// NewFile returns a file with a name and a mode on the hosts.
func NewFile(name string, mode int64, text []byte) File {
	return File{name, mode, sha256.Sum256(text), text}
}

// ReadFile is NewFile for the file at a path.
func ReadFile(name string, mode int64, path string) (File, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return File{}, fmt.Errorf("read %s for the hosts: %w", name, err)
	}
	return NewFile(name, mode, text), nil
}

// Copy copies those files to a host that it does not have. The words name a function of host.sh that calls take. changed has the names of the
// files that were copied, and said what the host printed after that.
func (s SSH) Copy(ctx context.Context, h Host, files []File, words ...string) (changed []string, said string, err error) {
	err = s.talk(ctx, h, func(in io.WriteCloser, out *bufio.Reader) error {
		for _, f := range files {
			fmt.Fprintf(in, "%x %o %s\n", f.sum, f.mode, f.name) // if this fails, there is no answer
		}
		fmt.Fprintln(in)
		line, err := out.ReadString('\n')
		if err != nil {
			return errBroken
		}
		if changed = strings.Fields(line); len(changed) > 0 {
			send(in, files, changed)
		}
		_ = in.Close()
		rest, err := io.ReadAll(out)
		said = strings.TrimSpace(string(rest))
		return err
	}, words...)
	return changed, said, err
}

// send writes some of the files as a compressed archive. If that fails, so does what the host makes of it.
func send(to io.Writer, files []File, names []string) {
	z, _ := gzip.NewWriterLevel(to, gzip.BestSpeed) // there is such a level
	t := tar.NewWriter(z)
	for _, f := range files {
		if slices.Contains(names, f.name) {
			_ = t.WriteHeader(&tar.Header{Name: f.name, Mode: f.mode, Size: int64(len(f.text))})
			_, _ = t.Write(f.text)
		}
	}
	_, _ = t.Close(), z.Close()
}

// Programs are the programs for several kinds of machines.
type Programs map[string]File

// ReadPrograms reads programs for Linux, each for its kind of machine. Without paths it takes this program.
func ReadPrograms(paths []string) (Programs, error) {
	if len(paths) == 0 {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this program: %w", err)
		}
		paths = []string{self}
	}
	all := Programs{}
	for _, path := range paths {
		e, err := elf.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s is no program for Linux (%w): name one with -proxima", path, err)
		}
		_ = e.Close()
		if all[kind(e.Machine.String())], err = ReadFile("proxima", 0o700, path); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// kind returns the kind of a machine, whether its name is that of an ELF file or that of uname -m.
func kind(name string) string {
	name = strings.ToLower(strings.TrimPrefix(name, "EM_"))
	if len(name) == 4 && strings.HasSuffix(name, "86") { // i686
		return "386"
	}
	return name
}

// For returns the program for a host. The host may say more of its machine than a file: armv7l, riscv64, ppc64le, s390x.
func (p Programs) For(i Info) (File, error) {
	for name, f := range p {
		if strings.HasPrefix(kind(i.Machine), name) {
			return f, nil
		}
	}
	return File{}, &Fault{i.Host.Name, Failed, fmt.Sprintf("it is a Linux/%s machine, which cannot run this program: name another with -proxima", i.Machine)}
}
