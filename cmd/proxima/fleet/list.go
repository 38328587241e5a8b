package fleet

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// Host is a machine that can be reached over ssh.
type Host struct {
	// Name is the host, followed by the port if the list states one.
	Name         string
	target, port string // for ssh
	// Addresses are those that others dial. A node has the first one.
	Addresses []netip.Addr
	entry     string // its line in the list of hosts
}

var hostForm = regexp.MustCompile(`^(([A-Za-z0-9._][A-Za-z0-9._-]*@)?(\[[0-9A-Fa-f:.%a-z]+\]|[A-Za-z0-9_][A-Za-z0-9._-]*))(:([0-9]{1,5}))?$`)

// ReadHosts reads a list of different hosts. Each line has the form [USER@]HOST[:PORT] [ADDRESS ...]. A # begins a comment.
func ReadHosts(path string) ([]Host, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read list of hosts: %w", err)
	}
	var list []Host
	seen := map[string]int{}
	for number, line := range strings.Split(strings.TrimPrefix(string(text), "\uFEFF"), "\n") {
		fault := func(format string, args ...any) ([]Host, error) {
			return nil, fmt.Errorf("%s:%d: %s", path, number+1, fmt.Sprintf(format, args...))
		}
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		m := hostForm.FindStringSubmatch(fields[0])
		if m == nil {
			return fault("%s is not [USER@]HOST[:PORT]", fields[0])
		}
		h := Host{Name: strings.Trim(m[3], "[]"), target: m[2] + strings.Trim(m[3], "[]"), port: m[5], entry: strings.Join(fields, " ")}
		if h.port != "" {
			h.Name += "_" + h.port
		}
		if seen[h.Name] > 0 {
			return fault("%s is listed twice, in line %d too", h.Name, seen[h.Name])
		}
		seen[h.Name] = number + 1
		for _, f := range fields[1:] {
			a, err := netip.ParseAddr(f)
			if err != nil {
				return fault("%s is not an IP address", f)
			}
			h.Addresses = append(h.Addresses, a)
		}
		list = append(list, h)
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%s names no host", path)
	}
	return list, nil
}

// WriteHosts writes a list of hosts with their loads.
func WriteHosts(path string, hosts []Info) error {
	var list strings.Builder
	for _, h := range hosts {
		fmt.Fprintf(&list, "%s # load per processor %.2f\n", h.Host.entry, h.Load)
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(list.String()), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write hosts of a set: %w", err)
	}
	return nil
}
