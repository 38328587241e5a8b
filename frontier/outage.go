package frontier

import "time"

// outage is trouble of this node itself: the network is gone, no name server answers, or the machine lacks a resource. It counts against no
// host. During an outage a single task or lookup is tried now and then, and the first answer ends it. The frontier's lock guards it.
type outage struct {
	why    string        // in words; "" while there is none
	names  bool          // a lookup reported it: web servers whose addresses are known may still be within reach
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

// keepsTasks says that no task may be taken now.
func (o *outage) keepsTasks(now time.Time) bool { return o.blind(now) && o.waits(now) }

// keepsNames says that no name may be resolved now.
func (o *outage) keepsNames(now time.Time) bool { return o.why != "" && o.waits(now) }

// waits says that the next try must wait, for its time or for the end of the last one.
func (o *outage) waits(now time.Time) bool { return o.trying || now.Before(o.next) }

// try notes that a task is taken, or a name, and says whether that is a try: its answer then shows whether the outage is over.
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

// suspicion finds an outage in which every failure looks like that of a server: behind a captive portal, a firewall, or a router without a
// line. Servers that had answered fail one after the other then, and none answers.
type suspicion struct {
	failed map[string]bool // servers, and domains of names, that had answered and have failed since any server last answered
	began  time.Time       // when it became an outage; zero if it did not
	wrong  bool            // it was an outage for too long: nothing is suspected until a server answers
}

const (
	// manySilent is how many must have failed. If a single server fails, the trouble is rather its own.
	manySilent = 2
	// mostSuspected is how long a suspected outage lasts at most. Then the servers are to blame, and the crawl may end.
	mostSuspected = 24 * time.Hour
	noAnswer      = "no server answers any more"
)

// suspectLocked takes the end of a task as a sign that this node is cut off, or that it is not. If it is, the end counts against no host.
func (f *front) suspectLocked(task *Task, out *Outcome, now time.Time) (news Event) {
	doubted := !f.suspicion.began.IsZero()
	switch {
	case isFileServer(task.Server):
	case out.Asked && (out.Trouble == NoTrouble || out.Trouble == Busy):
		if f.suspicion = (suspicion{}); doubted {
			news = Event{Kind: OwnTroubleOver, Reason: f.outage.why}
			f.outage = outage{}
		}
	case task.remote:
	case out.Trouble == Unreachable || doubted && out.Trouble == Interrupted && out.Asked:
		var ours bool
		if ours, news = f.failedLocked(task.host, task.Server.String(), task.try, now); ours {
			*out = Outcome{Ending: Again, Trouble: Interrupted, Asked: out.Asked, Elapsed: out.Elapsed, Lingers: out.Lingers, Reason: out.Reason, Receipt: out.Receipt}
		}
	}
	return news
}

// failedLocked notes that a host cannot be reached at a server or by a name. ours means that this node is probably cut off.
func (f *front) failedLocked(h *host, which string, try bool, now time.Time) (ours bool, news Event) {
	s := &f.suspicion
	switch {
	case !s.began.IsZero() && now.Sub(s.began) > mostSuspected:
		news = Event{Kind: OwnTroubleOver, Reason: f.outage.why}
		f.outage, *s = outage{}, suspicion{wrong: true}
		return false, news
	case !s.began.IsZero():
		if try {
			f.outage.fail(f.outage.why, false, now)
		}
		return true, news
	case s.wrong || f.outage.why != "" || h.failures+h.silent > 0 || !h.answered():
		return false, news
	case s.failed == nil:
		s.failed = make(map[string]bool)
	}
	if s.failed[which] = true; len(s.failed) < manySilent {
		return false, news
	}
	s.began = now
	f.outage.fail(noAnswer, false, now)
	return true, Event{Kind: OwnTrouble, Reason: noAnswer}
}

// tell reports an event, if there is one.
func (f *front) tell(e Event) {
	if e.Reason != "" {
		f.deps.Event(e)
	}
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

// Answered reports that a web server answered or, with names, a name server. So this node is not cut off. A suspected outage goes on:
// only a task that a server answered ends it.
func (f *Frontier) Answered(names bool) {
	f.mu.Lock()
	why, over := f.outage.why, false
	if why != "" && f.suspicion.began.IsZero() { // a firewall refuses, too, and a portal looks up names
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
