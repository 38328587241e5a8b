package identity

// Reason is why a URL is refused. The zero value is Accepted.
type Reason uint8

// The reasons. Their values are for memory, not for disk or wire: logs and messages carry the words.
const (
	Accepted Reason = iota
	// Scheme: neither http nor https.
	Scheme
	// Malformed: no URL by the standard, or a relative one without a base.
	Malformed
	// BadHost: a name that no web server can have, or port 0.
	BadHost
	// Credentials: user name or password in the URL, or what a parser would take long to tell from them.
	Credentials
	// TooLong: above MaxURLBytes.
	TooLong
	// TooDeep: above MaxDepth.
	TooDeep
	// TooManyHops: above MaxHops.
	TooManyHops
	// Excluded: matches Exclude.
	Excluded
	// OutOfScope: matches neither Include nor the scope of the seeds.
	OutOfScope
	// TooManyLabels: above MaxLabels.
	TooManyLabels
	// TooManySegments: above MaxPathSegments, or too many for the parser.
	TooManySegments
	// PathLoop: the path repeats itself.
	PathLoop
	// TooManyParams: above MaxQueryParams.
	TooManyParams
	// QueryLoop: the query repeats a parameter, or the address of its own page.
	QueryLoop

	reasons
)

var reasonWords = [reasons]string{
	Accepted:        "accepted",
	Scheme:          "scheme",
	Malformed:       "malformed",
	BadHost:         "bad host",
	Credentials:     "credentials",
	TooLong:         "too long",
	TooDeep:         "too deep",
	TooManyHops:     "too many hops",
	Excluded:        "excluded",
	OutOfScope:      "out of scope",
	TooManyLabels:   "too many labels",
	TooManySegments: "too many segments",
	PathLoop:        "path loop",
	TooManyParams:   "too many parameters",
	QueryLoop:       "query loop",
}

// String is the reason in words, as in logs.
func (r Reason) String() string {
	if r >= reasons {
		return "unknown"
	}
	return reasonWords[r]
}
