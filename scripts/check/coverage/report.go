package main

import (
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
)

// finding is a URL on which the crawls differ, and why.
type finding struct {
	who, url, reason string
	explained        bool
}

// report prints tables and findings, and reports whether all are explained.
func report(out io.Writer, p, w reading, own *links) bool {
	t := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(t, "host\tkind\tProxima\twget2\tboth\tonly Proxima\tonly wget2\t")
	for _, host := range slices.Sorted(maps.Keys(own.disallow)) {
		row(t, host, "pages", p.pages, w.pages)
		row(t, host, "others", p.others, w.others)
	}
	row(t, "", "pages", p.pages, w.pages)
	row(t, "", "others", p.others, w.others)
	t.Flush()

	var found []finding
	given := func(r reading) map[string]bool {
		all := maps.Clone(r.pages)
		maps.Copy(all, r.others)
		return all
	}
	ours, theirs := given(p), given(w)
	for _, u := range without(theirs, ours) {
		reason, ok := own.whyNotProxima(u, p, ours)
		found = append(found, finding{"only wget2", u, reason, ok})
	}
	for _, u := range without(ours, theirs) {
		reason, ok := own.whyNotWget(u)
		found = append(found, finding{"only Proxima", u, reason, ok})
	}
	for _, u := range without(own.reached, p.asked) {
		reason, ok := own.whyNotProxima(u, p, ours)
		found = append(found, finding{"not by Proxima", u, reason, ok})
	}
	found = append(found, conduct(p, own)...)
	forbidden := 0
	for u, refs := range own.refs {
		if own.disallowed(u) != "" && slices.ContainsFunc(refs, func(r ref) bool { return r.follow }) {
			forbidden++
		}
	}
	fmt.Fprintf(out, "\nThe check itself reached %d URLs, dead links included; Proxima requested %d.\nPages link to %d more, which robots.txt disallows.\n",
		len(own.reached), len(p.asked), forbidden)

	fmt.Fprintln(out)
	t = tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	unexplained := 0
	for _, f := range found {
		mark := ""
		if !f.explained {
			mark = "UNEXPLAINED: "
			unexplained++
		}
		fmt.Fprintf(t, "%s\t%s\t%s%s\n", f.who, f.url, mark, f.reason)
	}
	t.Flush()
	fmt.Fprintf(out, "\n%d differences, %d unexplained\n", len(found), unexplained)
	return unexplained == 0
}

func row(out io.Writer, host, kind string, p, w map[string]bool) {
	count := func(set map[string]bool, keep func(string) bool) int {
		n := 0
		for u := range set {
			if (host == "" || strings.HasPrefix(u, host+"/")) && keep(u) {
				n++
			}
		}
		return n
	}
	any := func(string) bool { return true }
	both := count(p, func(u string) bool { return w[u] })
	np, nw := count(p, any), count(w, any)
	fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t\n", host, kind, np, nw, both, np-both, nw-both)
}

// without lists what is in a but not in b, sorted.
func without[A, B any](a map[string]A, b map[string]B) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(a)), func(u string) bool {
		_, has := b[u]
		return has
	})
}

var tracking = regexp.MustCompile(`(?i)[?&;](utm_[a-z]*|gclid|fbclid|msclkid|jsessionid|phpsessid)=[^&]*`)

// whyNotProxima explains why Proxima left a URL out. ok is false if it should not have.
func (l *links) whyNotProxima(u string, p reading, ours map[string]bool) (reason string, ok bool) {
	if rule := l.disallowed(u); rule != "" {
		return "robots.txt disallows " + rule, true
	}
	if p.asked[u] > 0 && !ours[u] {
		return "Proxima requested it and got another status than 200", false
	}
	if plain := tracking.ReplaceAllString(u, ""); plain != u && ours[plain] {
		return "tracking parameter: Proxima has " + plain, true
	}
	refs := l.refs[u]
	if len(refs) == 0 {
		return "nothing links to it", false
	}
	hows := map[string]bool{}
	noFollow, leftOut := false, ""
	for _, r := range refs {
		switch {
		case r.follow && p.pages[r.from]:
			return fmt.Sprintf("%s holds <%s> to it: %q", r.from, r.how, r.raw), false
		case r.follow:
			leftOut = r.from
		case r.nofollow:
			noFollow = true
		default:
			hows[r.how] = true
		}
	}
	switch {
	case leftOut != "":
		return "linked only from pages left out, as " + leftOut, true
	case noFollow:
		return "nofollow", true
	case len(hows) == 1 && hows["css"]:
		return "only in style sheets", true
	}
	return "part of a page, not a page: " + strings.Join(slices.Sorted(maps.Keys(hows)), "; "), true
}

// whyNotWget explains why wget2 left out a URL that Proxima has. ok is false if there is no reason.
func (l *links) whyNotWget(u string) (reason string, ok bool) {
	if rule := l.disallowed(u); rule != "" {
		return "robots.txt disallows " + rule, false
	}
	if !l.reached[u] {
		return "nothing that may be followed leads there", false
	}
	// wget2 1.99 reads "&#45;" in an attribute as "&" and a fragment.
	for _, r := range l.refs[u] {
		if r.follow && !strings.Contains(r.raw, "&#") {
			return fmt.Sprintf("%s holds <%s> to it, and wget2 did not take it: %q", r.from, r.how, r.raw), false
		}
	}
	return fmt.Sprintf("wget2 does not decode numeric character references: %q", l.refs[u][0].raw), true
}

// conduct finds requests that Proxima must never make.
func conduct(p reading, own *links) []finding {
	var found []finding
	for _, u := range slices.Sorted(maps.Keys(p.asked)) {
		if rule := own.disallowed(u); rule != "" {
			found = append(found, finding{"Proxima", u, "requested although robots.txt disallows " + rule, false})
		}
		if n := p.asked[u]; n > 1 {
			found = append(found, finding{"Proxima", u, fmt.Sprintf("requested %d times", n), false})
		}
		if !own.reached[u] {
			found = append(found, finding{"Proxima", u, "requested although no link leads there", false})
		}
	}
	for _, u := range p.early {
		found = append(found, finding{"Proxima", u, "requested before robots.txt", false})
	}
	return found
}
