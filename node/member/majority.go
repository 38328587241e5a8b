package member

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

const (
	// behindFor is how long a live voter counts after it last had the same set, because news of a decision take a
	// while. It is about as long as it takes to notice a death.
	behindFor = 10 * time.Second
	// foundAfter is how long no new member must have come before the lowest of those that were never in an overlay
	// founds one. Of two that found at the same time, one must give way later.
	foundAfter = 2 * time.Second
	// nextInTurn is how much later each further voter tries to decide what those before it have not.
	nextInTurn = 6 * time.Second
	// namedMissing is how many missing voters are named in texts.
	namedMissing = 5
)

// Missing is a voter that this node waits for.
type Missing struct {
	// ID is its name, Addr its gossip address, "" if unknown.
	ID, Addr string
	// Seen is when it was last alive, zero if not in this life of this node.
	Seen time.Time
}

// adopt installs a decided set of voters if it is new.
func (t *table) adopt(v voters, now time.Time) {
	if t.paxos.adopt(v) {
		t.addVoters(now)
	}
}

// addVoters adds records for voters that are not known: each voter has one.
func (t *table) addVoters(now time.Time) {
	for _, id := range t.paxos.set.ids {
		if t.members[id] == nil {
			t.members[id] = &record{id: id, phase: dead, since: now, unseen: true}
		}
	}
}

// restore installs what an earlier life kept.
func (t *table) restore(k kept, now time.Time) {
	t.paxos.kept = k
	t.addVoters(now)
	for i, id := range k.set.ids {
		t.members[id].gossip = k.addrs[i]
	}
}

// keep returns what the next life must know.
func (t *table) keep() kept {
	k := t.paxos.kept
	k.addrs = nil
	for _, id := range k.set.ids {
		k.addrs = append(k.addrs, t.members[id].gossip)
	}
	return k
}

// absent reports whether a member gave up its vote in the present set.
func (t *table) absent(id string) bool {
	r := t.members[id]
	return r.gave != 0 && r.gave == t.paxos.plain()
}

// there returns the voters that count as present; the value says whether a voter gave up its vote. One with another set, or one that
// accepted the next set, does not count, because it may be part of another majority; nor does one that has not answered lately.
func (t *table) there(now time.Time) map[string]bool {
	c := &t.paxos
	t.match(now)
	renounced := marked(c.plain(), proposal{}, true)
	there := make(map[string]bool, len(c.set.ids))
	for _, id := range c.set.ids {
		if r := t.members[id]; r.votes(now) && t.hears(r, t.cfg.HearWithin, now) {
			there[id] = r.stamp == renounced
		}
	}
	return there
}

// votes reports whether a member is alive and has the same set as this node, or had it lately.
func (r *record) votes(now time.Time) bool {
	return r.phase == alive && now.Sub(r.matched) < behindFor
}

// match notes which members have the same set as this node.
func (t *table) match(now time.Time) {
	c := &t.paxos
	plain, renounced := c.plain(), marked(c.plain(), proposal{}, true)
	t.self.stamp = c.stamp()
	for _, r := range t.members {
		if r.phase == alive && (r.stamp == plain || r.stamp == renounced) {
			r.matched = now
		}
		if r.phase != alive || r.stamp != renounced {
			r.back = time.Time{}
		} else if r.back.IsZero() {
			r.back = now
		}
	}
}

// foundIfLowest founds an overlay where nobody knows of one.
func (t *table) foundIfLowest(now time.Time) {
	if t.paxos.set.version > 0 || now.Sub(t.met) < foundAfter {
		return
	}
	others := t.others()
	inOverlay := func(id string) bool { return t.members[id].stamp != 0 }
	if len(others) > 0 && t.self.id < others[0] && !slices.ContainsFunc(others, inOverlay) {
		t.paxos.found(now, t.self.id)
	}
}

// wanted returns the voters that there should be: live ones, those not dead for long, and the settled members that have
// the present set.
func (t *table) wanted(now time.Time) (ids []string) {
	c := &t.paxos
	plain := c.plain()
	for id, r := range t.members {
		switch in := c.set.has(id); {
		case r.phase == left, t.absent(id):
		case r.phase == dead && in && now.Sub(r.since) < t.cfg.MajorityWindow,
			r.phase == alive && in,
			r.phase == alive && (r.settled || r.founder) && !r.bad && (r == t.self || r.stamp == plain):
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// decide opens a ballot if there is something to decide and it is this node's turn. jitter is between 0 and 1.
func (t *table) decide(now time.Time, jitter float64) []outgoing {
	c := &t.paxos
	t.match(now)
	// A voter that accepted a set that was never decided, or that gave up its vote and came back, counts again after
	// the next decision.
	reached, stuck, turn := map[string]bool{}, false, 0
	for _, id := range c.set.ids {
		r := t.members[id]
		if r.phase != alive {
			continue
		}
		reached[id] = false
		stuck = stuck || r.stamp != c.plain() && now.Sub(r.matched) > behindFor || !r.back.IsZero() && now.Sub(r.back) > behindFor
		if id < t.self.id {
			turn++
		}
	}
	if _, votes := reached[t.self.id]; !votes || c.quit || !c.majority(reached, t.absent) {
		t.wished = time.Time{}
		return nil
	}
	wanted := t.wanted(now)
	if len(wanted) == 0 || slices.Equal(wanted, c.set.ids) && !stuck {
		t.wished = time.Time{}
		return nil
	}
	if t.wished.IsZero() {
		t.wished = now
	}
	if now.Sub(t.wished) < time.Duration(turn)*nextInTurn || now.Before(t.tried) {
		return nil
	}
	t.tried = now.Add(ballotFor + time.Duration(jitter*float64(ballotFor)))
	return c.begin(wanted, now)
}

// readFarewell handles a member's message that the crawl is over, or that it leaves. It acknowledges the latter.
func (t *table) readFarewell(msg message, now time.Time) (out []outgoing) {
	r := t.members[msg.from]
	if r == nil || r == t.self || r.boot > msg.ballot.number {
		return nil
	}
	if r.boot == msg.ballot.number && msg.renounced && msg.set.compare(t.paxos.set) == 0 {
		r.gave = t.paxos.plain()
	}
	switch {
	case msg.kind == messageLeave:
		r.boot, r.saidFarewell = msg.ballot.number, r.saidFarewell || r.phase == alive
		t.gone(r, left, now)
		return []outgoing{t.paxos.write(msg.from, message{kind: messageLeft, ballot: msg.ballot})}
	case r.boot == msg.ballot.number:
		r.over = true
	}
	return nil
}

// read handles a message and returns what to send.
func (t *table) read(msg message, now time.Time) []outgoing {
	switch msg.kind {
	case messageOver, messageLeave:
		return t.readFarewell(msg, now)
	case messageLeft:
		if t.farewellAcks != nil && msg.ballot.number == t.self.boot {
			t.farewellAcks[msg.from] = true
		}
		return nil
	}
	out, changed := t.paxos.read(msg, t.absent)
	if changed {
		t.addVoters(now)
	}
	if msg.kind == messagePrepare && msg.from < t.self.id {
		t.tried = now.Add(nextInTurn) // two ballots at once hinder each other
	}
	return out
}

// ask sends the latest set to some members that have another one. Those behind adopt it; those ahead answer.
func (t *table) ask(now time.Time) (out []outgoing) {
	plain := t.paxos.plain()
	for _, id := range t.others() {
		if r := t.members[id]; r.stamp != plain && now.Sub(r.asked) >= 3*time.Second {
			r.asked = now
			if out = append(out, t.paxos.decided(id)); len(out) == 4 {
				break
			}
		}
	}
	return out
}

// goAlone makes the live members that have answered since the only voters. It returns those that it dropped.
func (t *table) goAlone(now, since time.Time, why string) (dropped []string) {
	ids := append(t.others(), t.self.id)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id != t.self.id && t.members[id].heard.Before(since) })
	slices.Sort(ids)
	dropped = slices.DeleteFunc(slices.Clone(t.paxos.set.ids), func(id string) bool { return slices.Contains(ids, id) })
	if len(dropped) == 0 && t.majority {
		return nil
	}
	t.paxos.force(now, ids)
	t.event(EventAlone, nil, now, why)
	t.update(now)
	return dropped
}

// aloneByItself goes on alone if the configuration says so, the lowest live member first.
func (t *table) aloneByItself(now time.Time) bool {
	if t.majority || t.cfg.GoAloneAfter == 0 {
		return false
	}
	turn, _ := slices.BinarySearch(t.others(), t.self.id)
	if lacked := now.Sub(t.lacked); lacked < t.cfg.GoAloneAfter+time.Duration(turn)*nextInTurn {
		return false
	}
	t.goAlone(now, time.Time{}, "no majority for member.go_alone_after")
	return true
}

// depart gives up this node's vote, before its farewell, unless those that stay would be no majority without it: they would wait for ever, and
// with it only until it is back. If it is the last voter, it makes those that stay the voters.
func (t *table) depart(now time.Time) {
	c := &t.paxos
	stay, heirs := map[string]bool{}, []string(nil)
	for _, id := range t.others() {
		switch in := c.set.has(id); {
		case in && !t.absent(id):
			stay[id] = false
		case !in && t.members[id].stamp == c.plain():
			heirs = append(heirs, id)
		}
	}
	alone := c.majority(map[string]bool{t.self.id: c.renounced}, t.absent)
	switch {
	case !c.set.has(t.self.id):
	case c.majority(stay, func(id string) bool { return id == t.self.id || t.absent(id) }):
		c.renounced, c.dirty = true, true
	case len(stay) == 0 && len(heirs) > 0 && alone && c.accepted.ids == nil:
		t.adopt(voters{c.set.origin, c.set.version + 1, heirs}, now)
	}
	c.quit = true
}

// missing returns the voters that do not count as present, and the number of all. In a majority, voters that merely
// were not asked lately do not count as missing.
func (t *table) missing(now time.Time) (missing []Missing, voters int) {
	there := t.there(now)
	for _, id := range t.paxos.set.ids {
		if t.absent(id) {
			continue
		}
		voters++
		r := t.members[id]
		if renounced, ok := there[id]; ok && !renounced || !ok && t.majority && r.votes(now) || id == t.self.id {
			continue
		}
		m := Missing{ID: id, Addr: r.gossip}
		switch {
		case r.phase == alive && t.hears(r, t.cfg.HearWithin, now):
			m.Seen = now
		case r.phase == alive:
			m.Seen = r.heard
		case !r.unseen:
			m.Seen = r.since
		}
		missing = append(missing, m)
	}
	return missing, voters
}

// needed returns the voters that are gone, if all that are there gave up their vote and came back: they count only where all voters are there. If some
// voter has its vote, none is needed.
func (t *table) needed(there map[string]bool) (gone []*record) {
	for _, id := range t.paxos.set.ids {
		switch renounced, here := there[id]; {
		case here && renounced:
		case !here && t.absent(id):
			gone = append(gone, t.members[id])
		default:
			return nil
		}
	}
	return gone
}

// whyMinority says in words what a node in a minority waits for, and what an operator can do about it.
func (t *table) whyMinority(now time.Time) string {
	const remedy = "; if they are gone for good, run: proxima go-alone"
	if t.paxos.quit {
		return "this node leaves"
	}
	if t.paxos.set.version == 0 {
		return "none of the configured or known peers has answered yet: check the addresses, the version, the secret, node.run and member.faster" + remedy
	}
	there := t.there(now)
	missing, voters := t.missing(now)
	var named []string
	if gone := t.needed(there); len(gone) > 0 {
		for _, r := range gone[:min(len(gone), namedMissing)] {
			named = append(named, fmt.Sprintf("%.8s (stopped %v ago)", r.id, now.Sub(r.since).Round(time.Second)))
		}
		return fmt.Sprintf("waiting for %d of %d nodes: %s; all have been stopped since they last agreed who votes, so all must be there once%s",
			len(gone), len(t.paxos.set.ids), strings.Join(named, ", "), remedy)
	}
	for _, m := range missing[:min(len(missing), namedMissing)] {
		at := ""
		if m.Addr != "" {
			at = " at " + m.Addr
		}
		switch {
		case m.Seen.IsZero():
			named = append(named, fmt.Sprintf("%.8s (not seen since this node started%s)", m.ID, at))
		case there[m.ID]:
			named = append(named, fmt.Sprintf("%.8s (it answers, but has no vote: it gave that up when it stopped)", m.ID))
		case m.Seen.Equal(now):
			named = append(named, fmt.Sprintf("%.8s (it answers, and its vote is being settled)", m.ID))
		default:
			named = append(named, fmt.Sprintf("%.8s (last seen %v ago%s)", m.ID, now.Sub(m.Seen).Round(time.Second), at))
		}
	}
	if more := len(missing) - len(named); more > 0 {
		named = append(named, fmt.Sprintf("and %d more", more))
	}
	// In the middle of an upgrade the operator must not take the others for gone.
	const strangers = "; those of another version, secret, node.run or member.faster do not hear this node"
	return fmt.Sprintf("waiting for %d of %d nodes: %s%s%s", len(missing), voters, strings.Join(named, ", "), strangers, remedy)
}
