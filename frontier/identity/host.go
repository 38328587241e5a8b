package identity

import (
	"fmt"
	"strings"
)

// MaxHost is the longest host in bytes: the longer scheme, the longest name and a port.
const MaxHost = len("https://") + 253 + len(":65535")

// CheckHost reports what is wrong with a host that another node names: anything but the form of URL.Host.
func CheckHost(host string) error {
	if len(host) > MaxHost {
		return fmt.Errorf("check host: %d bytes are above %d", len(host), MaxHost)
	}
	u, err := Parse(host)
	if err != nil {
		return fmt.Errorf("check host: %w", err)
	}
	if u.Host != host {
		return fmt.Errorf("check host: %q is not in normal form", host)
	}
	return nil
}

// Authority is a host without its scheme: "example.org:8443" of "https://example.org:8443".
func Authority(host string) string {
	_, authority := cutScheme(host)
	return authority
}

// Name is the name or the address in a host, without scheme, port and brackets.
func Name(host string) string {
	name, _ := splitHost(Authority(host))
	return name
}

// cutScheme parts a host in its scheme and the rest. What has no scheme is all rest.
func cutScheme(host string) (scheme, authority string) {
	if rest, ok := strings.CutPrefix(host, "http://"); ok {
		return "http", rest
	}
	if rest, ok := strings.CutPrefix(host, "https://"); ok {
		return "https", rest
	}
	return "", host
}
