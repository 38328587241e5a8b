package frontier

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// rules compute the waits of politeness. They are pure: time and randomness are arguments.
type rules struct {
	Politeness
	prefixes []netip.Prefix
	spacing  map[netip.Addr]float64 // the factors of overloaded servers (SetSpacing)
}

// own says whether a server belongs to the operator (Politeness.Own).
func (r *rules) own(addr netip.Addr) bool {
	return slices.ContainsFunc(r.prefixes, func(p netip.Prefix) bool { return p.Contains(addr) })
}

func (r *rules) parallel(addr netip.Addr) int {
	if r.own(addr) {
		return r.OwnParallel
	}
	return 1
}

// longestRest is the longest Crawl-delay for which a whole server rests. One that is longer holds up its host alone: at the address of a large
// provider are thousands.
const longestRest = time.Minute

// hostGap returns the time between two requests to a host if its server rests for less; else 0.
func (r *rules) hostGap(site *Site, addr netip.Addr, crawlDelay time.Duration) time.Duration {
	if crawlDelay <= longestRest || isFileServer(addr) || r.own(addr) && (site == nil || site.Gap == nil) {
		return 0
	}
	return crawlDelay
}

// gap returns the time from the end of a request to the start of the next one to the same server: the largest of Crawl-delay up to longestRest,
// the configured minimum and a multiple of the last download time.
func (r *rules) gap(site *Site, addr netip.Addr, crawlDelay, elapsed time.Duration) time.Duration {
	if isFileServer(addr) {
		return 0
	}
	least := r.MinGap
	if site != nil && site.Gap != nil {
		least = *site.Gap
	} else if r.own(addr) {
		return r.OwnGap
	}
	slow := min(time.Duration(r.Factor*float64(elapsed)), r.MaxGap)
	gap := max(least, slow, min(crawlDelay, longestRest))
	if f := r.spacing[addr]; f > 1 {
		return max(gap, min(time.Duration(f*float64(gap)), r.MaxGap))
	}
	return gap
}

// pause returns how long a host waits that asked for a pause. The other hosts of its server go on.
func (r *rules) pause(retryAfter time.Duration) time.Duration {
	return min(retryAfter, r.MaxRetryAfter)
}

// backoff returns how long a host waits that has answered 429 or 503 level times in a row. The wait doubles each time. The
// jitter keeps hosts that failed together from coming back together.
func (r *rules) backoff(level uint8, rnd *rand.Rand) time.Duration {
	return jitter(doubled(r.BackoffMin, r.BackoffMax, level-1), rnd)
}

// doubled doubles a wait a number of times, until it is as long as may be.
func doubled(wait, longest time.Duration, times uint8) time.Duration {
	for ; times > 0 && wait < longest; times-- {
		wait *= 2
	}
	return min(wait, longest)
}

// longest returns the longest wait of a host for its answers, or for having given none.
func (r *rules) longest() time.Duration {
	most := max(r.MaxRetryAfter, r.BackoffMax, r.EndedFor)
	for _, wait := range slices.Concat(r.RetryConnect, r.RetryName, r.RetryPage) {
		most = max(most, wait)
	}
	return most * 5 / 4
}

// jitter returns a time between 3/4 and 5/4 of wait.
func jitter(wait time.Duration, rnd *rand.Rand) time.Duration {
	return time.Duration(float64(wait) * (0.75 + 0.5*rnd.Float64()))
}

// schedule returns the wait before retry number n, counted from 0; false if the schedule has ended.
func schedule(waits []time.Duration, n int, rnd *rand.Rand) (time.Duration, bool) {
	if n >= len(waits) {
		return 0, false
	}
	return jitter(waits[n], rnd), true
}
