package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"slices"
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
			return fault("%.60q is not [USER@]HOST[:PORT]", fields[0])
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
				return fault("%.60q is not an IP address", f)
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

// Info is what a host says about itself.
type Info struct {
	Host       Host    // with at least one address
	Load       float64 // of the last minute, divided by the number of processors
	Machine    string  // its kind, as uname -m prints it
	FreeMiB    int     // of disk space
	Dir        string  // the absolute path of the directory that holds everything
	Translated bool    // the address that others dial is not one of the host's own
}

// Probe asks a host about itself.
func (s SSH) Probe(ctx context.Context, h Host) (Info, error) {
	text, err := s.Answer(ctx, h, "probe")
	if err != nil {
		return Info{}, err
	}
	return newInfo(h, text)
}

// newInfo reads what probe printed.
func newInfo(h Host, text string) (Info, error) {
	i, cores := Info{Host: h}, 0
	lines := append(strings.Split(text, "\n"), "", "", "")
	if _, err := fmt.Sscan(lines[0], &i.Load, &cores, &i.Machine, &i.FreeMiB); err != nil || cores < 1 {
		return i, &Fault{h.Name, Failed, fmt.Sprintf("it answered %.100q", lines[0])}
	}
	i.Load, i.Dir = i.Load/float64(cores), lines[1]
	if len(h.Addresses) == 0 {
		a, err := netip.ParseAddr(lines[2])
		if err != nil {
			return i, &Fault{h.Name, Failed, "it does not say which address it has: name one in the list of hosts"}
		}
		i.Host.Addresses = []netip.Addr{a.Unmap()}
	}
	i.Translated = !i.Address().IsLoopback() && !slices.Contains(strings.Fields(lines[3]), i.Address().String())
	return i, nil
}

// Address is the address that others dial.
func (i Info) Address() netip.Addr { return i.Host.Addresses[0] }

// Advertise returns the address with a port for others, and Listen that to listen on: all addresses, unless it is one of the host's own.
func (i Info) Advertise(port int) string {
	return netip.AddrPortFrom(i.Address(), uint16(port)).String()
}

// Listen returns the address with a port to listen on. See Advertise.
func (i Info) Listen(port int) string {
	on := i.Address()
	switch {
	case i.Translated && on.Is4():
		on = netip.IPv4Unspecified()
	case i.Translated:
		on = netip.IPv6Unspecified()
	}
	return netip.AddrPortFrom(on, uint16(port)).String()
}

// SetSizes returns how many sets are wanted, and how many of which size can be made of the hosts that can be used. A set needs some hosts.
// One of the number of sets and the number of hosts to take may be 0 and follows from the other.
func SetSizes(need, sets, take, found int) (wanted, made, size int, err error) {
	if need < 1 || sets < 0 || take < 0 || sets+take == 0 {
		return 0, 0, 0, errors.New("name how many hosts a set needs (-need), and the number of sets (-sets) or of hosts (-take)")
	}
	take = cmp.Or(take, need*sets)
	wanted = cmp.Or(sets, take/need)
	if wanted == 0 || take < wanted*need {
		return 0, 0, 0, fmt.Errorf("-take %d is less than %d sets of %d", take, max(1, wanted), need)
	}
	if made = min(wanted, found/need); made > 0 {
		size = min(take, found) / made
	}
	return wanted, made, size, nil
}

// Divide divides the least loaded hosts into sets. It begins with the most loaded of them and gives each host to the set with the least load
// that has room.
func Divide(hosts []Info, sets, size int) [][]Info {
	hosts = slices.Clone(hosts)
	slices.SortStableFunc(hosts, func(a, b Info) int { return cmp.Compare(a.Load, b.Load) })
	hosts = hosts[:sets*size]
	slices.Reverse(hosts)
	dealt, sums := make([][]Info, sets), make([]float64, sets)
	for _, h := range hosts {
		to := -1
		for k := range dealt {
			if len(dealt[k]) < size && (to < 0 || sums[k] < sums[to]) {
				to = k
			}
		}
		dealt[to], sums[to] = append(dealt[to], h), sums[to]+h.Load
	}
	return dealt
}
