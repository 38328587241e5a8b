package robots

// Verdict is what the HTTP status of a robots.txt means for the host (RFC 9309 section 2.3.1).
type Verdict uint8

const (
	// Wait means that the file cannot be reached now: nothing may be fetched before a later attempt (section 2.3.1.4).
	Wait Verdict = iota
	// Usable means that the body is the file.
	Usable
	// Redirect means that the file is elsewhere; after five redirects it counts as unavailable (section 2.3.1.2).
	Redirect
	// Unavailable means that there is no file: everything is allowed (section 2.3.1.3).
	Unavailable
)

// Judge returns the verdict on a status code. 429 says "later" and is taken at its word, which the RFC leaves open; so are
// codes that HTTP does not know.
func Judge(status int) Verdict {
	switch {
	case status >= 200 && status < 300:
		return Usable
	case status >= 300 && status < 400:
		return Redirect
	case status >= 400 && status < 500 && status != 429:
		return Unavailable
	}
	return Wait
}
