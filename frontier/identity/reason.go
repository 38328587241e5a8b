package identity

// Reason says in words why a URL is refused. The zero value is Accepted.
type Reason string

// The reasons. Only logs and messages have them.
const (
	Accepted        Reason = ""
	Scheme          Reason = "scheme"              // neither http nor https
	Malformed       Reason = "malformed"           // no URL by the standard, or a relative URL without a base
	BadHost         Reason = "bad host"            // a name that no web server can have, or port 0
	Credentials     Reason = "credentials"         // a user name or password in the URL, or a long text that may be one
	TooLong         Reason = "too long"            // above maxURLBytes
	TooDeep         Reason = "too deep"            // above the limit on depths
	TooManyHops     Reason = "too many hops"       // above MaxHops
	Excluded        Reason = "excluded"            // matches Exclude
	OutOfScope      Reason = "out of scope"        // matches neither Include nor the scope of the seeds
	TooManyLabels   Reason = "too many labels"     // above maxLabels
	TooManySegments Reason = "too many segments"   // above maxPathSegments, or too many for the parser
	PathLoop        Reason = "path loop"           // the path repeats itself
	TooManyParams   Reason = "too many parameters" // above maxQueryParams
	QueryLoop       Reason = "query loop"          // the query repeats a parameter, or the address of its own page
)

// explained returns the reason in more words, for people who have written the URL.
func (r Reason) explained() string {
	switch r {
	case Scheme:
		return "only http and https can be crawled"
	case Malformed:
		return "this is no complete URL"
	case BadHost:
		return "no web server can have this name or port"
	case Credentials:
		return "a user name or password is in it"
	case TooLong:
		return "it is too long"
	}
	return string(r)
}
