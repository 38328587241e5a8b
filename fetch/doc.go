// Package fetch downloads one URL from one given address: timed by stage, bounded in every dimension, and guarded
// against addresses that the web must not make a node reach.
//
// It owns connections (one pool a server address, HTTP/1.1 and HTTP/2), timeouts, size bounds, content decoding, the
// guard and the classes of failure. It does not resolve names, read robots.txt, space requests, follow redirects or
// retry: its callers do. There is no cookie jar: no cookie is kept or sent. It puts no bound on requests in parallel:
// the crawl's leases do, one server at a time.
//
// A connection pool of net/http is keyed by host name, while the frontier names an address. So each address has a
// transport of its own, which can dial nothing else; in it net/http pools by scheme, host and port, and server names and
// certificates are checked as usual.
//
// net/http reports bytes that arrive on an idle connection through the standard log package; programs that embed this
// package should route that logger.
package fetch
