package member

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	long  = flag.Bool("long", false, "run many more seeds of the models")
	first = flag.Uint64("first", 0, "the first seed of TestOneMajority")
	many  = flag.Uint64("many", 3, "how many seeds TestOneMajority runs")
)

// model is a world of tables: nodes that meet, part, die, leave, come back with their disks or without, and whose
// messages are lost and late. Nothing in it sleeps.
type model struct {
	t     *testing.T
	rnd   *rand.Rand
	now   time.Time
	nodes []*modelNode
	mail  []modelMail
	ids   int
	// parted is since when two nodes have not seen each other.
	parted map[[2]*modelNode]time.Time
	// turned is when sides changed last.
	turned time.Time
	claims int // steps in which somebody had the majority
	// deaf are the pairs of nodes of which the first hears nothing that the second sends. Gossip still comes by way of others.
	deaf map[[2]*modelNode]bool
	// forced means that operators let nodes go alone, which may make more than one majority until all see each other again.
	forced bool
}

type modelNode struct {
	id    string
	boot  uint64
	says  meta // in its meta, as of the last step
	disk  []byte
	side  int
	table *table // nil while it is down
	// known is what this node has heard of others: their meta, and since when they do not answer.
	known map[*modelNode]*modelNews
}

type modelNews struct {
	meta   meta
	silent time.Time
	limit  time.Duration
}

type modelMail struct {
	from, to *modelNode
	at       time.Time
	message  message
}

const modelStep = time.Second

// modelLag is for how long two sides may both believe that they are the majority: Config.HearWithin, and some steps.
const modelLag = 22 * time.Second

func (m *model) add() *modelNode {
	n := &modelNode{}
	m.nodes = append(m.nodes, n)
	m.rename(n)
	return n
}

// rename makes a node one with a new disk.
func (m *model) rename(n *modelNode) {
	m.ids++
	n.id, n.disk = nodeID(1+(m.ids*7919)%1000), nil
}

func (m *model) start(n *modelNode) {
	n.boot++
	first := n == m.nodes[0] && m.ids <= len(m.nodes) // the one that the others are told to join
	n.table = newTable(Default(), n.id, n.boot, !first || n.disk != nil, m.now)
	if n.disk != nil {
		k, err := decode[kept](n.disk, "votes")
		must(m.t, err)
		n.table.restore(k, m.now)
	}
	n.known = map[*modelNode]*modelNews{}
}

func (m *model) store(n *modelNode) {
	if n.table.paxos.dirty {
		n.table.paxos.dirty = false
		n.disk = encode(nil, n.table.keep())
	}
}

func (m *model) connected(a, b *modelNode) bool {
	return a.table != nil && b.table != nil && a.side == b.side
}

func (n *modelNode) meta() meta {
	c := &n.table.paxos
	return meta{boot: n.boot, settled: n.table.self.declared, addr: "a:1",
		stamp: marked(c.plain(), c.accepted, c.renounced)}
}

// farewell is what it says when it leaves.
func (n *modelNode) farewell() message {
	return n.table.farewellMessage(messageLeave, "").message
}

// near are the nodes whose gossip reaches a node, by way of others if need be.
func (m *model) near(a *modelNode) map[*modelNode]bool {
	near, queue := map[*modelNode]bool{a: true}, []*modelNode{a}
	for ; len(queue) > 0; queue = queue[1:] {
		for _, b := range m.nodes {
			if !near[b] && m.connected(queue[0], b) && !m.deaf[[2]*modelNode{queue[0], b}] && !m.deaf[[2]*modelNode{b, queue[0]}] {
				near[b], queue = true, append(queue, b)
			}
		}
	}
	return near
}

func (m *model) exchange(a, b *modelNode) {
	if m.deaf[[2]*modelNode{a, b}] || m.deaf[[2]*modelNode{b, a}] {
		return
	}
	x, y := a.table.state(1, m.now), b.table.state(1, m.now)
	a.table.merge(y, m.now)
	b.table.merge(x, m.now)
}

func (m *model) leave(n *modelNode) {
	n.table.depart(m.now)
	m.store(n)
	for _, o := range m.nodes {
		if o != n && m.connected(o, n) && !m.deaf[[2]*modelNode{o, n}] && m.rnd.IntN(10) > 0 {
			o.table.read(n.farewell(), m.now)
			if l := n.table.paxos.decided(o.id).message; m.rnd.IntN(10) > 0 {
				m.mail = append(m.mail, modelMail{n, o, m.now, l})
			}
		}
	}
	n.table = nil
}

// hear lets a node hear of another.
func (m *model) hear(a, b *modelNode, near map[*modelNode]bool) {
	if near[b] {
		news := a.known[b]
		r := a.table.members[b.id]
		fresh := news == nil || news.meta.boot != b.boot || r == nil || r.phase != alive
		if fresh && m.rnd.IntN(8) == 0 {
			a.known[b] = &modelNews{meta: b.says}
			a.table.seen(b.id, "a:1", a.known[b].meta, nil, m.now)
			if m.rnd.IntN(2) == 0 {
				m.exchange(a, b)
			}
		} else if !fresh && (news.meta.stamp != b.says.stamp || news.meta.settled != b.says.settled) && m.rnd.IntN(3) == 0 {
			news.meta = b.says
			a.table.seen(b.id, "a:1", news.meta, nil, m.now)
		}
		if news != nil {
			news.silent = time.Time{}
		}
		if m.rnd.IntN(2) == 0 && !m.deaf[[2]*modelNode{a, b}] && !m.deaf[[2]*modelNode{b, a}] {
			a.table.answered(b.id, m.now)
		}
		return
	}
	news := a.known[b]
	if news == nil {
		return
	}
	if news.silent.IsZero() {
		// A node that misses many finds them dead slowly.
		news.silent, news.limit = m.now, time.Duration(5+m.rnd.IntN(10)+m.rnd.IntN(2)*m.rnd.IntN(120))*time.Second
	}
	if m.now.Sub(news.silent) >= news.limit {
		a.table.lost(b.id, m.now)
	}
}

func (m *model) step() {
	m.now = m.now.Add(modelStep)
	for _, n := range m.nodes {
		if n.table != nil {
			n.says = n.meta()
		}
	}
	for _, a := range m.nodes {
		near := m.near(a)
		for _, b := range m.nodes {
			if a != b && a.table != nil {
				m.hear(a, b, near)
			}
		}
		if b := m.nodes[m.rnd.IntN(len(m.nodes))]; a != b && m.connected(a, b) && m.rnd.IntN(30) == 0 {
			m.exchange(a, b)
		}
	}
	m.deliver()
	for _, n := range m.nodes {
		if n.table != nil {
			n.table.update(m.now)
			m.send(n, append(n.table.decide(m.now, m.rnd.Float64()), n.table.ask(m.now)...))
			n.table.events = nil
		}
	}
	m.deliver()
	m.check()
}

// deliver hands out the messages that are due, and those that answer them.
func (m *model) deliver() {
	for rest := -1; len(m.mail) != rest; {
		rest = 0
		mail := m.mail
		m.mail = nil
		for _, l := range mail {
			switch {
			case l.at.After(m.now):
				m.mail = append(m.mail, l)
				rest++
			case l.to.table != nil && (l.from == l.to || l.from.side == l.to.side) && !m.deaf[[2]*modelNode{l.to, l.from}]:
				out := l.to.table.read(l.message, m.now)
				l.to.table.update(m.now)
				m.send(l.to, out)
			}
		}
	}
}

func (m *model) send(n *modelNode, out []outgoing) {
	m.store(n)
	for _, p := range out {
		for _, to := range m.nodes {
			if to.id != p.to || to != n && m.rnd.IntN(10) == 0 {
				continue
			}
			l, err := decode[message](encode(nil, p.message), "message")
			must(m.t, err)
			for range 1 + m.rnd.IntN(6)/5 { // some come twice
				late := time.Duration(m.rnd.IntN(4)/3) * modelStep
				switch {
				case to == n:
					late = 0
				case m.rnd.IntN(50) == 0:
					late = time.Duration(m.rnd.IntN(120)) * time.Second
				}
				m.mail = append(m.mail, modelMail{n, to, m.now.Add(late), l})
			}
		}
	}
}

// check is the property: two nodes that have not seen each other for a while do not both have the majority.
func (m *model) check() {
	any := false
	for i, a := range m.nodes {
		for _, b := range m.nodes[:i] {
			if m.forced {
				break
			}
			pair := [2]*modelNode{a, b}
			if m.near(a)[b] || a.table == nil || b.table == nil {
				delete(m.parted, pair)
				continue
			}
			if m.parted[pair].IsZero() {
				m.parted[pair] = m.now
			}
			// In a burst of partitions both may go on hearing the same others, now one, now the other.
			if m.now.Sub(m.parted[pair]) >= modelLag && m.now.Sub(m.turned) >= modelLag && a.table.majority && b.table.majority &&
				m.now.Sub(a.table.held) >= modelLag && m.now.Sub(b.table.held) >= modelLag {
				m.t.Fatalf("%s and %s do not see each other and both have the majority: of %v and %v", a.id[4:8], b.id[4:8],
					short(a.table.paxos.set), short(b.table.paxos.set))
			}
		}
		any = any || a.table != nil && a.table.majority
	}
	if any {
		m.claims++
	}
}

func short(v voters) string {
	s := fmt.Sprintf("%d:", v.version)
	for _, id := range v.ids {
		s += " " + id[4:8]
	}
	return s
}

func (m *model) run(d time.Duration) {
	for end := m.now.Add(d); m.now.Before(end); {
		m.step()
	}
}

// fate lets something happen.
func (m *model) fate(lostDisks bool) {
	n := m.nodes[m.rnd.IntN(len(m.nodes))]
	if m.forced && n.table != nil && !n.table.majority {
		told := map[int]bool{} // the sides where somebody has been told
		for _, n := range m.nodes {
			if n.table != nil && !n.table.majority && !told[n.side] {
				told[n.side] = true
				n.table.goAlone(m.now, time.Time{}, "told")
				m.store(n)
			}
		}
		return
	}
	switch k := m.rnd.IntN(15); {
	case k == 12 || k == 13: // a path breaks in one direction
		if o := m.nodes[m.rnd.IntN(len(m.nodes))]; o != n {
			m.turned = m.now
			m.deaf[[2]*modelNode{n, o}] = true
		}
	case k == 14:
		m.turned = m.now
		clear(m.deaf)
	case k < 3: // another partition
		m.turned = m.now
		sides := 1 + m.rnd.IntN(3)
		for _, n := range m.nodes {
			n.side = m.rnd.IntN(sides)
		}
	case k < 5:
		m.turned = m.now
		for _, n := range m.nodes {
			n.side = 0
		}
	case n.table == nil:
		if lostDisks && m.rnd.IntN(10) == 0 {
			m.rename(n)
		}
		m.start(n)
	case k < 7:
		m.leave(n)
	case k < 9:
		n.table = nil
	case len(m.nodes) < 9:
		b := m.add()
		b.side = n.side
		m.start(b)
	}
}

// Whatever happens, at no time are there two majorities, unless operators make them; and when all are back, there is one.
func TestOneMajority(t *testing.T) {
	if *long {
		*many = max(*many, 100)
	}
	var claims, steps, looks, lacks int
	for seed := *first; seed < *first+*many; seed++ {
		rnd := rand.New(rand.NewPCG(seed, 5))
		m := &model{t: t, rnd: rnd, now: time.Unix(1_000_000, 0), parted: map[[2]*modelNode]time.Time{}, deaf: map[[2]*modelNode]bool{}}
		for range 3 + rnd.IntN(4) {
			m.start(m.add())
		}
		m.run(2 * time.Minute)
		begin := m.now
		lostDisks := seed%2 == 1
		m.forced = seed%3 == 2
		for range 30 {
			m.fate(lostDisks)
			// Bursts, and rests longer than majority_window.
			if rnd.IntN(3) == 0 {
				m.run(time.Duration(rnd.IntN(5000)) * time.Millisecond)
			} else {
				m.run(time.Duration(rnd.IntN(900)) * time.Second)
			}
		}
		claims, steps = claims+m.claims, steps+int(m.now.Sub(begin)/modelStep)
		if lostDisks && !m.forced {
			continue // its voters may be gone for ever
		}
		for _, n := range m.nodes {
			n.side = 0
			if n.table == nil {
				m.start(n)
			}
		}
		clear(m.deaf)
		if seed%4 == 2 { // one stays, which must not keep any node waiting
			m.deaf[[2]*modelNode{m.nodes[0], m.nodes[1]}] = true
		}
		for range 5 * 60 {
			m.run(time.Second)
			for _, n := range m.nodes {
				looks++
				if !n.table.majority {
					lacks++
				}
			}
		}
		for _, n := range m.nodes {
			if !n.table.majority || short(n.table.paxos.set) != short(m.nodes[0].table.paxos.set) {
				t.Errorf("seed %d: node %s with %s in the end: majority %v, %s", seed, n.id[4:8], short(n.table.paxos.set),
					n.table.majority, n.table.whyMinority(m.now))
			}
		}
		if t.Failed() {
			return
		}
	}
	t.Logf("somebody had the majority for %.0f %% of the time; nodes lacked it for %.2f %% of the five minutes after all faults",
		100*float64(claims)/float64(steps), 100*float64(lacks)/float64(max(looks, 1)))
}
