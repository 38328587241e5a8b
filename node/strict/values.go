package strict

import (
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
)

// HostPort splits the host:port of a configuration and checks the port. Either may be empty or 0: that is for the caller to judge.
func HostPort(s string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(s)
	if err != nil {
		return "", 0, fmt.Errorf("%q is not host:port", s)
	}
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return "", 0, fmt.Errorf("%q has no port between 0 and 65535", s)
	}
	return host, int(n), nil
}

// SamePort reports whether two host:port are known to be the same port of this machine, or one of them is that port at all its addresses. Port 0
// is any free one.
func SamePort(a, b string) bool {
	hostA, portA, errA := HostPort(a)
	hostB, portB, errB := HostPort(b)
	return errA == nil && errB == nil && portA == portB && portA != 0 && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

func everywhere(host string) bool {
	addr, _ := netip.ParseAddr(host)
	return host == "" || addr.IsUnspecified()
}

// Private returns an error for a file that other users may read. systemd grants a service its credentials by an access list, which looks like
// a group permission and is allowed.
func Private(path string, info fs.FileInfo) error {
	mode := info.Mode().Perm()
	credential := filepath.Dir(path) == os.Getenv("CREDENTIALS_DIRECTORY")
	if mode&0o077 == 0 || credential && mode&0o037 == 0 || runtime.GOOS == "windows" {
		return nil
	}
	return fmt.Errorf("%s is open to others (%v): chmod 600 %[1]s", path, mode)
}

// NotNumber says what is wrong with a text that is no value of a flag for a number.
func NotNumber(text string) string {
	if _, err := strconv.ParseFloat(text, 64); err != nil {
		return fmt.Sprintf("%q is not a number", text)
	}
	if strings.Trim(text, "0123456789") == "" {
		return fmt.Sprintf("%q is too large", text)
	}
	return fmt.Sprintf("%q is not a whole number in plain digits", text)
}

// Nearest returns the word that is most similar to another, or "". A word is similar if it begins with the other, or if at most about a third
// of the letters differ.
func Nearest(to string, words []string) (best string) {
	least := (len(to) + 2) / 3
	for _, w := range words {
		if len(to) > 2 && strings.HasPrefix(w, to) {
			return w
		}
		if d := distance(to, w); d <= least {
			best, least = w, d-1
		}
	}
	return best
}

// distance returns how many letters must be added, removed or replaced to change one word into another (Levenshtein, 1966).
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for k := range row {
		row[k] = k
	}
	for i := range len(a) {
		last := row[0]
		row[0] = i + 1
		for k := range len(b) {
			d := last
			if a[i] != b[k] {
				d++
			}
			last = row[k+1]
			row[k+1] = min(d, row[k+1]+1, row[k]+1)
		}
	}
	return row[len(b)]
}
