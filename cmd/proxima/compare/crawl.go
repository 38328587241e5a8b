package compare

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"proxima/node/runlog"
)

// crawlCounts are the counts of one run's crawl. Those of URLs are made when records are joined.
type crawlCounts struct {
	statuses    map[int]int64 // pages by HTTP status, 0 for none
	dnsErrors   int64
	attempted   int64 // URLs
	downloaded  int64 // URLs answered with a status below 400
	repeats     int64 // further downloads of these
	html        int64 // URLs that were HTML pages
	waiting     int64 // URLs whose last try may be repeated
	links       int64 // on all pages
	reassigned  int64 // hosts
	unbalanced  int64 // lines of queue logs whose counts do not add up
	unbalancedN string
}

// page handles all downloads of one URL in this run. Several for a comparison are one. Rounds of mode persistent repeat on purpose, and
// do not count.
func (k *crawlCounts) page(g []record) {
	tried, again, done, html := false, true, int64(0), false
	compared := uint64(0)
	for _, d := range g {
		if d.flags&(flagCut|flagRound) != 0 {
			continue
		}
		tried = true
		again = again && d.flags&flagAgain != 0
		html = html || d.flags&flagHTML != 0
		if d.flags&flagOK == 0 {
			continue
		}
		if d.flags&flagCompared != 0 {
			if compared == d.batch {
				continue
			}
			compared = d.batch
		}
		done++
	}
	if !tried {
		return
	}
	k.attempted++
	if again {
		k.waiting++
	}
	if html {
		k.html++
	}
	if done > 0 {
		k.downloaded++
		k.repeats += done - 1
	}
}

// queue handles a line of the queue log.
func (r *run) queue(n int, q *runlog.Queue) {
	if q.Accepted+q.AtStart+q.Arrived != q.Done+q.Failed+q.Dropped+q.Left+q.Pending {
		r.crawl.unbalanced++
		r.crawl.unbalancedN = r.nodes[n].name
	}
	r.nodes[n].queue.at(r.seconds(q.Time)).add(float64(q.Pending))
	entry(r.nodes[n].lives, q.Boot).queue = *q
}

// used handles a line of the load log.
func (r *run) used(n int, l *runlog.Load) {
	life := entry(r.nodes[n].lives, l.Boot)
	life.rss = max(life.rss, l.RSSBytes)
	second := r.seconds(l.Time)
	if since := second - life.loadAt; life.loadAt > 0 && since > 0 {
		r.nodes[n].cpu.at(second).add((l.CPUSeconds - life.load.CPUSeconds) / since)
	}
	life.load, life.loadAt = *l, second
}

// event handles a line of the node log.
func (r *run) event(n int, e *runlog.Event) {
	if r.world == nil && (r.started.IsZero() || e.Time.Before(r.started)) {
		r.started = e.Time // the run starts with its first node
	}
	switch e.Event {
	case runlog.EventStart:
		entry(r.nodes[n].lives, e.Boot)
		r.configured(e)
	case runlog.EventStop:
		entry(r.nodes[n].lives, e.Boot).stopped = true
	case runlog.EventDNS:
		r.crawl.dnsErrors++
	}
}

// configured notes what a node says about itself when it starts.
func (r *run) configured(e *runlog.Event) {
	r.name = cmp.Or(r.name, e.Run)
	if v, ok := e.Attrs[runlog.KeyVersion].(string); ok {
		r.version = v
	}
	text, ok := e.Attrs[runlog.KeyConfig].(string)
	if !ok || text == "" {
		return
	}
	s := settings(text)
	if r.settings == nil {
		r.settings, r.config = s, text
	}
	for k, v := range r.settings {
		if s[k] != v {
			r.disagree[k] = true
		}
	}
}

// last returns the logs of the node's last life.
func (n *node) last() (last lifeLogs) {
	for _, boot := range slices.Sorted(maps.Keys(n.lives)) {
		last = *n.lives[boot]
	}
	return last
}

// ended reports whether a node stopped in order and did not start again.
func (r *run) ended() bool {
	return slices.ContainsFunc(r.nodes, func(n *node) bool { return n.last().stopped })
}

// pending returns how many URLs waited at the end. What a killed node said last does not count if others stopped in order: they have
// taken its hosts over. Nor do copies: if all stopped in order, what came to one and left no other waits at a node that stopped before.
func (r *run) pending() int64 {
	var all, orderly, copies int64
	killed := false
	for _, node := range r.nodes {
		for _, life := range node.lives {
			copies += life.queue.Arrived - life.queue.Left
			killed = killed || !life.stopped
		}
		last := node.last()
		all += last.queue.Pending
		if last.stopped {
			orderly += last.queue.Pending
		}
	}
	switch {
	case !r.ended():
		return all
	case killed:
		return orderly
	}
	return max(0, orderly-max(0, copies))
}

// crawlSums add up the crawls of several runs.
type crawlSums struct {
	Crawl
	assigned, answers, lost    int64
	downloaded, repeats        int64
	messages, bytes, linksSent int64 // between nodes
}

// add adds a run. gaps says why its logs cannot be trusted, "" if they can.
func (f *crawlSums) add(r *run, gaps string) {
	k := &r.crawl
	f.Attempted += k.attempted
	f.downloaded += k.downloaded
	f.repeats += k.repeats
	f.Found += k.html
	f.Links += k.links
	f.Reassigned += k.reassigned
	for status, n := range k.statuses {
		if status > 0 {
			f.answers += n
		}
	}
	var in, out, done, dropped int64
	var killed []string
	for _, n := range r.nodes {
		boots := slices.Sorted(maps.Keys(n.lives))
		for i, b := range boots {
			l := n.lives[b]
			f.messages += l.load.MessagesSent
			f.bytes += l.load.BytesSent
			f.linksSent += l.load.LinksSent
			in += l.queue.Accepted
			done += l.queue.Done + l.queue.Failed
			out += l.queue.Done + l.queue.Failed + l.queue.Dropped
			dropped += l.queue.Dropped
			if i == 0 {
				in += l.queue.AtStart
			}
			if i == len(boots)-1 {
				out += l.queue.Pending
			}
			if !l.stopped && !slices.Contains(killed, n.name) {
				killed = append(killed, n.name)
			}
		}
	}
	pending, listed := r.pending(), int64(0)
	if r.world != nil {
		listed = int64(r.world.Pages)
	}
	f.assigned += k.attempted + max(0, pending-k.waiting)
	f.Listed += listed
	withheld, unsure := gaps, ""
	switch {
	case gaps != "":
	case k.unbalanced > 0:
		withheld = fmt.Sprintf("the counts of %s do not add up in %d lines", k.unbalancedN, k.unbalanced)
	case listed > 0 && k.attempted == 0:
		unsure = "nothing was crawled"
	case listed > 0 && pending == 0:
		// A page that was tried in vain is not lost, it failed. One that was dropped has a reason in the log.
		lost := max(0, listed-k.html-k.waiting-dropped)
		if logged := k.attempted + k.repeats; lost > 0 && done > logged { // a log that lacks its last lines has no gap in their numbers
			withheld = fmt.Sprintf("the nodes have done %d pages, and their fetch logs have %d", done, logged)
		}
		f.lost += lost
		f.assigned += lost
	case len(killed) > 0:
		unsure = fmt.Sprintf("%s ended without a last line: what it had accepted since the line before is not known", strings.Join(killed, ", "))
	case in > out:
		// A URL that two owners accepted is finished once.
		unsure = fmt.Sprintf("at most %d URLs: accepted and not accounted for, including those that two owners knew", in-out)
	case in < out: // what is lost could hide behind them
		unsure = fmt.Sprintf("%d URLs are in the counts of two nodes, since one took over the hosts of another that had stopped", out-in)
	}
	f.Withheld, f.LostWhy = cmp.Or(f.Withheld, withheld), cmp.Or(f.LostWhy, unsure)
}

// Status counts the pages with one answer.
type Status struct {
	Label string
	Count int64
}

// statuses returns the rows of the status table: failures first, then each HTTP status.
func statuses(runs []*run) []Status {
	var dns int64
	sum := map[int]int64{}
	for _, r := range runs {
		dns += r.crawl.dnsErrors
		for s, n := range r.crawl.statuses {
			sum[s] += n
		}
	}
	rows := []Status{{"communication failure", sum[0]}, {"DNS error", dns}}
	for _, s := range slices.Sorted(maps.Keys(sum)) {
		if s > 0 {
			rows = append(rows, Status{strings.TrimSpace(strconv.Itoa(s) + " " + http.StatusText(s)), sum[s]})
		}
	}
	return rows
}

// distrust says why the logs of a run cannot tell coverage and losses, "" if they can.
func (c *comparer) distrust(r *run) string {
	var why []string
	for k, n := range c.lines.gaps {
		if k.run == r.index && (k.log == runlog.LogFetch || k.log == runlog.LogQueue || k.log == runlog.LogNode) {
			why = append(why, fmt.Sprintf("%d lines are missing in the %s log of %s (boot %d)", n, k.log, r.nameOf(k.node), k.boot))
		}
	}
	slices.Sort(why)
	if c.lines.Cut > 0 {
		why = append(why, fmt.Sprintf("%d packed files are cut off", c.lines.Cut))
	}
	if len(c.lines.Unread) > 0 {
		why = append(why, c.lines.Unread[0])
	}
	there, ended := map[string]bool{}, r.ended()
	for _, n := range r.nodes {
		if there[n.name] = true; n.name == "" {
			why = append(why, fmt.Sprintf("there are no logs of node %.8s", n.id))
		}
		if q := n.last().queue; !ended && n.pages > 0 && q.Accepted+q.AtStart+q.Arrived == 0 { // no other node took over what waits
			why = append(why, n.name+" was killed before it counted its pages")
		}
		for _, boot := range slices.Sorted(maps.Keys(n.lives)) {
			if l := n.lives[boot]; l.stopped && l.queue.Seq == 0 { // a node that stops in order writes its counts
				why = append(why, fmt.Sprintf("there is no queue log of %s (boot %d)", n.name, boot))
			}
		}
	}
	if r.world != nil {
		for _, n := range r.world.Nodes {
			if !there[n.Name] {
				why = append(why, "there are no logs of "+n.Name)
			}
		}
	}
	if len(why) > 3 {
		why = append(why[:3], fmt.Sprintf("%d more reasons", len(why)-3))
	}
	return strings.Join(why, "; ")
}

func (c *comparer) crawl(runs []*run) Crawl {
	var f crawlSums
	for _, r := range runs {
		f.add(r, c.distrust(r))
	}
	a := float64(f.answers)
	f.URLsExchangedPerPage, f.MessagesPerPage, f.BytesPerPage = ratio(float64(f.linksSent), a), ratio(float64(f.messages), a), ratio(float64(f.bytes), a)
	f.Overlap = ratio(float64(f.repeats), float64(f.downloaded))
	if f.Withheld == "" {
		f.Coverage = ratio(float64(f.Attempted), float64(f.assigned))
		f.CoverageGenerated = ratio(float64(f.Found), float64(f.Listed))
		if f.LostWhy == "" && len(runs) > 0 {
			f.Lost = &f.lost
		}
	}
	return f.Crawl
}
