package resolve

import (
	"bytes"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// hostsFile is a hosts file. It is read again when it has changed.
type hostsFile struct {
	path string
	ipv6 bool

	// mu guards what follows.
	mu       sync.Mutex
	looked   time.Time
	modified time.Time               // when the file was changed last, as of then; zero if there was none
	table    map[string][]netip.Addr // by canonical name; nil before the file is read
}

// hostsEvery is how often the file is looked at, at most.
const hostsEvery = 5 * time.Second

// find returns the addresses of a canonical name, nil if the file does not have it. While the file cannot be read, the names that it had stay.
func (f *hostsFile) find(name string) []netip.Addr {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.looked) >= hostsEvery {
		_ = f.readLocked()
	}
	return f.table[name]
}

// readLocked reads the file if it has changed.
func (f *hostsFile) readLocked() error {
	f.looked = time.Now()
	var modified time.Time
	if info, err := os.Stat(f.path); err == nil { // else the reading tells why
		modified = info.ModTime()
	}
	if f.table != nil && modified.Equal(f.modified) {
		return nil
	}
	text, err := readFile(f.path)
	if err == nil {
		f.table, f.modified = parseHosts(text, f.ipv6), modified
	}
	return err
}

// parseHosts reads a hosts file: an address and its names on each line, # comments. Like everyone it skips lines that it cannot
// parse. A name keeps its first maxAddrs addresses; IPv6 addresses count only with ipv6.
func parseHosts(text []byte, ipv6 bool) map[string][]netip.Addr {
	table := map[string][]netip.Addr{}
	for line := range bytes.Lines(text) {
		line, _, _ = bytes.Cut(line, []byte("#"))
		fields := strings.Fields(string(line))
		if len(fields) < 2 {
			continue
		}
		addr, err := netip.ParseAddr(fields[0])
		if err != nil || addr.Zone() != "" {
			continue
		}
		if addr = addr.Unmap(); addr.Is6() && !ipv6 {
			continue
		}
		for _, field := range fields[1:] {
			name, err := CanonicalName(field)
			if err == nil && len(table[name]) < maxAddrs && !slices.Contains(table[name], addr) {
				table[name] = append(table[name], addr)
			}
		}
	}
	return table
}
