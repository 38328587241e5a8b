// Package identity decides when two URLs are the same page, and which URLs belong to the crawl.
//
// It has three parts: the identity of a URL (URL, Parse), the rules of a crawl (Rules: links, tracking parameters, scope, traps), and
// the seeds file (ReadSeeds). It does not remember or count URLs, resolve names or judge addresses. An endless calendar is noticed by
// the count of a host's URLs, which the frontier keeps.
//
// # Identity
//
// Two URLs are the same when the WHATWG URL Standard (https://url.spec.whatwg.org/) serialises them in the same way, with these
// exceptions:
//
//   - The fragment is dropped.
//   - An empty query is dropped: /a? is /a.
//   - One dot at the end of a name is dropped: example.org. and example.org are the same name to DNS.
//   - These are refused, although the standard allows them: schemes other than http and https, credentials, port 0, and names that
//     DNS cannot carry or no web server has (empty labels, labels above 63 bytes, names above 253 bytes, any characters but letters,
//     digits, hyphen and underscore).
//   - URLs of more than 8 KiB or 512 segments are refused for their cost.
//
// Queries are encoded as UTF-8; package page has encoded those of pages in other encodings. Parsing an identity again, or resolving it
// against any base, returns the same identity.
//
// # Fast path
//
// A page has some 300 links, and the parser takes microseconds for each. Therefore the fast path (fast.go) cuts links that are already
// in normal form from their text, and only the others go to the parser (slow.go). Both give the same answers; a fuzz test compares
// them.
package identity
