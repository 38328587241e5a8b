package frontier

import (
	"time"
)

// outage is this node's own trouble: the network is gone, no name server answers, or the machine is out of something.
// It counts against no host. While there is one, a single task or lookup is tried now and then; the first thing that
// is answered ends it. It is used under the frontier's lock.
type outage struct {
	why    string        // in words; "" while there is none
	names  bool          // it was a lookup that said so: servers may be within reach all the same
	served time.Time     // when one of them answered last, after that
	next   time.Time     // of the next try
	wait   time.Duration // until the try after that
	trying bool
}

// Waits between two tries.
const (
	leastTry = time.Second
	mostTry  = time.Minute
	// serves is for how long a server that answered says that others are within reach, too.
	serves = time.Minute
)

// blind says that nothing is known to be within reach.
func (o *outage) blind(now time.Time) bool { return o.why != "" && now.Sub(o.served) >= serves }

// keepsTasks says that no task may be taken now.
func (o *outage) keepsTasks(now time.Time) bool { return o.blind(now) && o.waits(now) }

// keepsNames says that no name may be looked up now.
func (o *outage) keepsNames(now time.Time) bool { return o.why != "" && o.waits(now) }

func (o *outage) waits(now time.Time) bool { return o.trying || now.Before(o.next) }

// try notes that something is taken, and says whether that is a try.
func (o *outage) try(task bool, now time.Time) bool {
	if o.why == "" || task && !o.blind(now) {
		return false
	}
	o.trying = true
	return true
}

// fail notes trouble, and reports whether that is news. What was begun before the next try is no further sign.
func (o *outage) fail(why string, names bool, now time.Time) (news bool) {
	if news = o.why == ""; news {
		*o = outage{wait: leastTry}
	} else if now.Before(o.next) {
		return false
	}
	o.why, o.names, o.trying = why, names, false
	if !names {
		o.served = time.Time{}
	}
	o.next = now.Add(o.wait)
	o.wait = min(2*o.wait, mostTry)
	return news
}

// answer notes that a name server answered, or a web server, and reports whether the outage is over.
func (o *outage) answer(names bool, now time.Time) bool {
	switch {
	case o.why == "":
		return false
	case o.names && !names:
		o.served = now
		return false
	}
	*o = outage{}
	return true
}

// OwnTrouble tells that a task or, with names, a lookup failed by this node's own fault, and why in words. Nothing is
// taken from now on but a try now and then, until Answered is called. The task is to end as Interrupted, the lookup as
// one that is ours.
func (f *Frontier) OwnTrouble(why string, names bool) {
	f.mu.Lock()
	news := f.outage.fail(why, names, time.Now())
	f.troubled.Store(true)
	f.dispatch(time.Now())
	f.mu.Unlock()
	if news {
		f.deps.Event(Event{Kind: OwnTrouble, Reason: why})
	}
}

// Answered tells that a web server answered or, with names, a name server: this node is not cut off.
func (f *Frontier) Answered(names bool) {
	if !f.troubled.Load() {
		return
	}
	f.mu.Lock()
	why := f.outage.why
	over := f.outage.answer(names, time.Now())
	if over {
		f.troubled.Store(false)
	}
	f.dispatch(time.Now())
	f.mu.Unlock()
	if over {
		f.deps.Event(Event{Kind: OwnTroubleOver, Reason: why})
	}
}

// Troubled says that nothing has been answered since OwnTrouble was called: what meets silence now says nothing of its
// host.
func (f *Frontier) Troubled() bool {
	if !f.troubled.Load() {
		return false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outage.blind(time.Now())
}

// tried ends a try that gave no answer. was says whether it was a try at all.
func (o *outage) tried(was bool) { o.trying = o.trying && !was }
