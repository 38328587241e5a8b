package frontier

import "time"

// outage is trouble of this node itself: the network is gone, no name server answers, or the machine lacks a resource. It counts against no
// host. During an outage a single task or lookup is tried now and then, and the first answer ends it. The frontier's lock guards it.
type outage struct {
	why    string        // in words; "" while there is none
	names  bool          // a lookup reported it, so web servers may still be within reach
	served time.Time     // when a web server last answered during the outage
	next   time.Time     // when the next try is allowed
	wait   time.Duration // the wait until the try after that
	trying bool          // a try is out
}

// The shortest and the longest wait between two tries.
const (
	leastTry = time.Second
	mostTry  = time.Minute
	// serves is how long the answer of one server shows that others are within reach, too.
	serves = time.Minute
)

// blind says that no server is known to be within reach.
func (o *outage) blind(now time.Time) bool { return o.why != "" && now.Sub(o.served) >= serves }

func (o *outage) keepsTasks(now time.Time) bool { return o.blind(now) && o.waits(now) }

func (o *outage) keepsNames(now time.Time) bool { return o.why != "" && o.waits(now) }

func (o *outage) waits(now time.Time) bool { return o.trying || now.Before(o.next) }

// try notes that a task or a name is taken, and says whether that is a try.
func (o *outage) try(task bool, now time.Time) bool {
	if o.why == "" || task && !o.blind(now) {
		return false
	}
	o.trying = true
	return true
}

// fail notes trouble, and says whether the outage is new. A failure before the next try was begun earlier and says nothing new.
func (o *outage) fail(why string, names bool, now time.Time) (news bool) {
	if news = o.why == ""; news {
		o.wait = leastTry
	} else if now.Before(o.next) {
		return false
	}
	o.why, o.names = why, names
	if !names {
		o.served = time.Time{}
	}
	o.next = now.Add(o.wait)
	o.wait = min(2*o.wait, mostTry)
	return news
}

// answer notes the answer of a name server or a web server, and says whether the outage is over.
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

// OwnTrouble reports that a task or, with names, a lookup failed by this node's own fault, and says why. Until Answered is called, only a
// try is taken now and then. The caller ends the task as Interrupted, or the lookup by Lost with ours.
func (f *Frontier) OwnTrouble(why string, names bool) {
	news := false
	f.update(func(now time.Time) { news = f.outage.fail(why, names, now) })
	if news {
		f.deps.Event(Event{Kind: OwnTrouble, Reason: why})
	}
}

// Answered reports that a web server answered or, with names, a name server. So this node is not cut off.
func (f *Frontier) Answered(names bool) {
	f.mu.Lock()
	why, over := f.outage.why, false
	if why != "" {
		now := time.Now()
		over = f.outage.answer(names, now)
		f.dispatchLocked(now)
	}
	f.mu.Unlock()
	if over {
		f.deps.Event(Event{Kind: OwnTroubleOver, Reason: why})
	}
}

// Troubled says that this node is cut off as far as it knows. A request without an answer then says nothing about its host.
func (f *Frontier) Troubled() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.outage.blind(time.Now())
}

// tried notes the end of a task or lookup. was says whether that was a try.
func (o *outage) tried(was bool) { o.trying = o.trying && !was }
