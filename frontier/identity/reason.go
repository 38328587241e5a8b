package identity

// Reason is why a URL is refused. The zero value is Accepted.
type Reason uint8

// The reasons. Only their words go into logs and messages, so the values may change.
const (
	Accepted Reason = iota
	// Scheme: neither http nor https.
	Scheme
	// Malformed: no URL by the standard, or a relative URL without a base.
	Malformed
	// BadHost: a name that no web server can have, or port 0.
	BadHost
	// Credentials: a user name or password in the URL, or a long text that may be one.
	Credentials
	// TooLong: above maxURLBytes.
	TooLong
	// TooDeep: above MaxDepth.
	TooDeep
	// TooManyHops: above MaxHops.
	TooManyHops
	// Excluded: matches Exclude.
	Excluded
	// OutOfScope: matches neither Include nor the scope of the seeds.
	OutOfScope
	// TooManyLabels: above maxLabels.
	TooManyLabels
	// TooManySegments: above maxPathSegments, or too many for the parser.
	TooManySegments
	// PathLoop: the path repeats itself.
	PathLoop
	// TooManyParams: above maxQueryParams.
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

// String returns the words for the reason, as in logs.
func (r Reason) String() string {
	if r >= reasons {
		return "unknown"
	}
	return reasonWords[r]
}
