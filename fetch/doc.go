// Package fetch downloads one URL from one given address. It times each stage, bounds time and size, and guards against addresses
// that the web must not make a node reach.
//
// It owns connections (one pool for each server address, HTTP/1.1 and HTTP/2), timeouts, size limits, content decoding, the guard and
// the classes of failure. It does not resolve names, read robots.txt, space requests, follow redirects or retry: its callers do. It
// keeps and sends no cookies. It does not limit concurrent requests: the crawl's leases do.
//
// net/http keys a connection pool by host name, while the frontier names an address. So each address has its own transport, which
// can dial nothing else. Within it net/http pools by scheme, host and port, and checks server names and certificates as usual.
//
// net/http reports bytes that arrive on an idle connection through the standard log package; programs that embed this package should
// route that logger.
package fetch
