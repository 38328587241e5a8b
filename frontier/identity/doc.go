// Package identity says when two URLs are one page, and which URLs belong to the crawl.
//
// It owns three things: the identity of a URL (URL, Parse), the rules of a crawl (Rules: resolving links, removing
// tracking parameters, scope, traps) and the seeds file (ReadSeeds). It does not remember URLs, does not count them per
// host (an endless calendar shows only there), resolves no names and judges no addresses.
//
// # Identity
//
// Two URLs are one when the WHATWG URL Standard (https://url.spec.whatwg.org/) gives them one serialisation, with these
// departures:
//
//   - The fragment is dropped.
//   - An empty query is dropped: /a? is /a.
//   - One dot at the end of a name is dropped: example.org. and example.org are one name to DNS.
//   - Refused, though the standard takes them: schemes other than http and https, credentials, port 0, and names that
//     DNS cannot carry or no web server has (empty labels, labels above 63 bytes, names above 253 bytes, anything but
//     letters, digits, hyphen and underscore).
//   - Refused for their cost: more than 8 KiB, more than 512 segments.
//
// Queries are encoded as UTF-8 whatever the encoding of the page. An identity is its own identity: parsing it again, or
// resolving it against any base, gives it back.
//
// # Fast path
//
// A page has some 300 links, and the parser takes microseconds for each. Links that are provably in normal form already
// are therefore cut from their text (fast.go), and all others go to the parser (slow.go). Whatever the fast path answers
// is what the parser would have answered; fuzz tests hold the one against the other.
package identity
