package compare

import "maps"

// maxLabels bounds how many assigners the logs may name: a record has a bit for each.
const maxLabels = 16

// tally is what one run says about one assigner.
type tally struct {
	urls, downloaded, failed, unanswered int64
	bytes                                int64
	times                                sketch // ms, of the downloads that count
	// The sums are over downloads of which truth knows what they should take, in ms.
	sums, estimates sums

	asked       sketch // estimates made for a server
	askedFailed int64
	seconds     sketch // until a batch was decided
	accuracy    sketch // error of servers when decided
	decisions   int64  // servers assigned
	judged      int64  // of these, where truth knows the best node
	best        int64  // of these, given to it
	short       int64  // servers for which fewer pages could be asked for than were wanted
	forced      int64  // servers decided at the last tick or the deadline

	// clusters are the paired differences, by run and server: pages of one server are no independent samples.
	clusters map[uint64]*cluster
}

// sums of ms.
type sums struct {
	n                        int64
	measured, expected, best float64
}

func (s *sums) add(measured, expected, best float64) {
	s.n++
	s.measured += measured
	s.expected += expected
	s.best += best
}

func (s *sums) merge(o sums) {
	s.n += o.n
	s.measured += o.measured
	s.expected += o.expected
	s.best += o.best
}

// cluster sums up the differences to the reference at one server.
type cluster struct {
	n         int64
	own, base float64 // ms
}

func newTally() *tally { return &tally{clusters: map[uint64]*cluster{}} }

// pair adds a page that the reference downloaded too.
func (t *tally) pair(run int, server uint32, own, base float64) {
	k := uint64(run)<<32 | uint64(server)
	c := t.clusters[k]
	if c == nil {
		c = &cluster{}
		t.clusters[k] = c
	}
	c.n++
	c.own += own
	c.base += base
}

// merge adds the figures of another run.
func (t *tally) merge(o *tally) {
	t.urls += o.urls
	t.downloaded += o.downloaded
	t.failed += o.failed
	t.unanswered += o.unanswered
	t.bytes += o.bytes
	t.times.merge(&o.times)
	t.sums.merge(o.sums)
	t.estimates.merge(o.estimates)
	t.asked.merge(&o.asked)
	t.askedFailed += o.askedFailed
	t.seconds.merge(&o.seconds)
	t.accuracy.merge(&o.accuracy)
	t.decisions += o.decisions
	t.judged += o.judged
	t.best += o.best
	t.short += o.short
	t.forced += o.forced
	maps.Copy(t.clusters, o.clusters)
}
