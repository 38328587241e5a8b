package member

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"proxima/node/golden"
)

// TestTable plays the scenarios of testdata/table: what one node makes of what it sees and hears, and whom it asks. script.do explains the
// steps. After each block it prints the messages to others, the events, and the outcome.
//
//	go test -run TestTable ./node/member -update
func TestTable(t *testing.T) {
	golden.Play(t, "testdata/table/*.txt", *Update, func(t *testing.T, blocks [][]string, _ []string) (printed []string) {
		s := &script{}
		for _, steps := range blocks {
			for step := range strings.SplitSeq(strings.Join(steps, ";"), ";") {
				s.do(t, strings.Fields(step))
			}
			printed = append(printed, s.print())
		}
		return printed
	})
}

// script is a table, and what it has sent.
type script struct {
	*clock
	said []string
}

// ping stands beside the kinds of messages in scenarios.
const ping = messageKinds

var spoken = [...]string{messageDecided: "the voters", messagePrepare: "prepare", messagePromise: "promise", messageAccept: "accept",
	messageAccepted: "accepted", messageRefuse: "refuse", messageOver: "over", messageLeave: "leave", messageLeft: "farewell", ping: "ping"}

// do takes a step; several stand in one line, with semicolons between them. Numbers are those of members, 2-5 are four of them.
//
//	node 1 [newcomer|among 2-5] [life 5] [goalone 15m]
//	                                a new table, of this node, which founds an overlay or knows of peers, and has met some
//	meet 2-5 [life 2] [new] [behind] [gave] [garbage]
//	                                they are alive and settled (or new), know the voters (or not, or have no vote among them),
//	                                or publish garbage
//	lost 2                          the gossip takes it for dead
//	leave 2 [life 2]                it says farewell, and gives up its vote
//	vote 1 2 3                      they are decided to be the voters, and all that live know it
//	told [next] 3 dead 50s settled voter gave, 4 left
//	                                what node 9 says of members, and of the voters: the next ones, or those of now
//	pass 20s                        time passes, and this node looks every second
//	hurry 20s, stall 20s            time passes, and it does not look before the next step, or only at the end
//	deaf, heard 2 [3s]              nobody answers any more; one does, to what it was asked now, or so long ago
//	stood                           this node stood still, and drops all answers
//	alone                           an operator lets it go on alone
//	tell, ping, decide              what it is to do now: tell those that are behind who votes, ping the silent, open a ballot
//	prepare 2                       a ballot of another one begins
//	quit                            it gives up its vote, to leave
func (s *script) do(t *testing.T, w []string) {
	ids, opts := places(w[1:])
	span := func(text string) time.Duration {
		d, err := time.ParseDuration(text)
		must(t, err)
		return d
	}
	life := uint64(1)
	if i := slices.Index(opts, "life"); i >= 0 {
		life = uint64(opts[i+1][0] - '0')
	}
	var out []outgoing
	has := func(word string) bool { return slices.Contains(opts, word) }
	switch w[0] {
	case "node":
		ids, opts = ids[:1], w[2:]
		s.clock = newClock(t)
		s.table = newTable(Default(), nodeID(ids[0]), life, has("newcomer"), s.now)
		if i := slices.Index(opts, "goalone"); i >= 0 {
			s.cfg.GoAloneAfter = span(opts[i+1])
		}
		if has("among") {
			others, _ := places(opts[1:])
			for _, i := range others {
				s.meet(i, 1, true)
			}
			s.events = nil
		}
	case "meet":
		for _, i := range ids {
			if has("garbage") {
				s.seen(nodeID(i), "10.0.0.2:1", meta{}, errors.New("garbage"), s.now)
				continue
			}
			if s.meet(i, life, !has("new")); has("behind") {
				s.members[nodeID(i)].stamp++
			} else if has("gave") {
				s.members[nodeID(i)].stamp = marked(s.paxos.plain(), proposal{}, true)
			}
		}
	case "lost":
		for _, i := range ids {
			s.lost(nodeID(i), s.now)
		}
	case "leave", "prepare":
		kind := map[string]int{"leave": messageLeave, "prepare": messagePrepare}[w[0]]
		from := nodeID(ids[0])
		out = s.read(message{kind: kind, from: from, set: s.paxos.set, ballot: ballot{life, from}, renounced: true}, s.now)
	case "vote":
		s.vote(ids...)
	case "told":
		version := s.paxos.set.version
		if w[1] == "next" {
			version, w = version+1, w[1:]
		}
		told := state{sender: nodeID(9), set: voters{s.paxos.set.origin, version, nil}}
		for text := range strings.SplitSeq(strings.Join(w[1:], " "), ",") {
			told.members = append(told.members, s.entry(strings.Fields(text), span))
		}
		s.merge(told, s.now)
	case "pass":
		s.pass(span(w[1]))
	case "hurry":
		s.now = s.now.Add(span(w[1]))
		return
	case "stall":
		s.now = s.now.Add(span(w[1]))
	case "deaf":
		s.deaf = true
	case "heard":
		asked := s.now
		if len(opts) > 0 {
			asked = asked.Add(-span(opts[0]))
		}
		for _, i := range ids {
			s.answered(nodeID(i), asked)
		}
	case "stood":
		s.forgetAnswers(s.now)
	case "alone":
		s.said = append(s.said, "drop"+ranges(numbers(s.goAlone(s.now, time.Time{}, "told"))))
	case "tell":
		out = s.ask(s.now)
	case "decide":
		out = s.decide(s.now, 0.5)
	case "ping":
		for _, r := range s.toPing(s.now) {
			out = append(out, outgoing{r.id, message{kind: ping}})
		}
	case "quit":
		s.depart(s.now)
	default:
		t.Fatalf("no step %q", w[0])
	}
	var to []string
	for _, p := range out {
		to = append(to, p.to)
	}
	if len(to) > 0 {
		s.said = append(s.said, spoken[out[0].kind]+" ->"+ranges(numbers(to)))
	}
	s.update(s.now)
	if s.aloneByItself(s.now) {
		s.update(s.now)
	}
}

// places reads the numbers with which some words begin; 2-5 are four of them.
func places(words []string) (ids []int, rest []string) {
	for i, word := range words {
		first, last, several := strings.Cut(word, "-")
		from, err := strconv.Atoi(first)
		if err != nil {
			return ids, words[i:]
		}
		to := from
		if several {
			to, _ = strconv.Atoi(last)
		}
		for ; from <= to; from++ {
			ids = append(ids, from)
		}
	}
	return ids, nil
}

// entry reads what is told of a member: its number, and words.
func (s *script) entry(words []string, span func(string) time.Duration) entry {
	e := entry{boot: 1}
	for i, word := range words {
		switch {
		case i == 0:
			n, _ := strconv.Atoi(word)
			e.id = nodeID(n)
		case word == "dead":
			e.phase = dead
		case word == "left":
			e.phase = left
		case word == "settled":
			e.settled = true
		case word == "voter":
			e.voter = true
		case word == "gave":
			e.gave = true
		case strings.HasPrefix(word, "life"):
			e.boot = uint64(word[4] - '0')
		default:
			e.since = span(word)
		}
	}
	return e
}

// print tells what has happened since it was called last, and the outcome.
func (s *script) print() string {
	var kinds []string
	of := map[string][]int{}
	for _, e := range s.events {
		kind := strings.TrimSuffix(e.Kind+": "+e.Reason, ": ")
		if e.Kind == EventMinority && e.Reason == s.whyMinority(s.now) {
			kind = e.Kind // it is printed with the outcome
		}
		if !slices.Contains(kinds, kind) {
			kinds = append(kinds, kind)
		}
		if e.ID != "" {
			of[kind] = append(of[kind], numbers([]string{e.ID})...)
		}
	}
	lines := s.said
	for _, kind := range kinds {
		slices.Sort(of[kind])
		lines = append(lines, kind+ranges(of[kind]))
	}
	s.said, s.events = nil, nil
	settled, voters := ranges(numbers(s.settled)), ranges(numbers(s.paxos.set.ids))
	text := strings.Join(lines, "; ") + fmt.Sprintf("\nsettled%s, voters%s, version %d", settled, voters, s.version)
	if s.self.declared {
		text += ", declared"
	}
	if !s.majority {
		text += "\n" + s.whyMinority(s.now)
	}
	for i := range 10 {
		text = strings.ReplaceAll(text, nodeID(i)[:8], fmt.Sprint("node ", i))
	}
	return text
}

// ranges writes numbers in a short form.
func ranges(of []int) (text string) {
	for i, last := 0, 0; i < len(of); i = last + 1 {
		for last = i; last+1 < len(of) && of[last+1] == of[last]+1; last++ {
		}
		if text += fmt.Sprint(" ", of[i]); last > i {
			text += fmt.Sprint("-", of[last])
		}
	}
	return text
}
