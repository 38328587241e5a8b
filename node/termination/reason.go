package termination

import "regexp"

// heldFor is for how many rounds the same reason must have kept the crawl from ending before it is told: those of pages that
// come and go are no news.
const heldFor = 3

// numbers differ from round to round where the reason is the same.
var numbers = regexp.MustCompile(`\b[0-9]{1,9}\b`)

// reason tells why a crawl has not ended, once a reason.
type reason struct {
	now, told string
	rounds    int
}

// news says that a round's reason is to be told; an empty one never is.
func (r *reason) news(why string) bool {
	if why = numbers.ReplaceAllString(why, "n"); why != r.now {
		r.now, r.rounds = why, 0
	}
	if r.rounds++; r.rounds < heldFor || why == r.told {
		return false
	}
	r.told = why
	return why != ""
}
