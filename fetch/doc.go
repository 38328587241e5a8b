// Package fetch downloads one URL from one given address. It times each stage, bounds time and size, and guards against addresses
// that the web must not make a node reach.
//
// It owns connections (one pool for each server address, HTTP/1.1 and HTTP/2), timeouts, size limits, content decoding, the guard and
// the classes of failure. It does not resolve names, read robots.txt, space requests, follow redirects or retry: its callers do. It
// keeps and sends no cookies. It does not limit concurrent requests: the crawl's leases do.
//
// New makes a Client, Client.Get downloads, and Result.Release gives the memory of the body back (example_test.go). A download passes these
// files:
//
//	client.go    Get checks URL and address, and reads the answer into the Result
//	target.go    the URL as net/http sends it unchanged; ports that are not asked
//	guard.go     addresses that are not asked
//	servers.go   the idle connections to each address
//	conn.go      connects and shakes hands, with chains.go for certificates
//	http1.go     sends the request and reads the head of the answer, with head.go for heads that net/http would refuse, and chunks.go for chunks
//	body.go      reads the body within its bounds, with decode.go for content codings
//	class.go     names how the download ended
//
// Meanwhile an exchange (exchange.go) takes the times and ends the download when it is too slow. Just before the first bytes of the request
// go out, it asks whether the server may still be asked (right.go). A site that is read from a directory takes the way of files.go instead.
//
// It speaks HTTP/1.1 itself, with the parser of net/http, as the frontier names an address and net/http pools by host name. HTTP/2 is left to
// net/http: each address has a transport of its own, which can dial nothing else. Server names and certificates are checked as usual.
package fetch
