package sites

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"time"
)

// logged is a line of nginx's log.
type logged struct {
	End    float64    `json:"end"`  // seconds since 1970, to the ms
	Took   float64    `json:"took"` // seconds from the first byte of the request to the last of the answer
	Server netip.Addr `json:"server"`
	Host   string     `json:"host"`
	URI    string     `json:"uri"`
	Status int        `json:"status"`
}

// lines calls a function with each request that nginx answered so far.
func (x *Nginx) lines(each func(logged)) error {
	f, err := os.Open(x.file("access.log"))
	if errors.Is(err, os.ErrNotExist) {
		return nil // it has not run yet
	}
	if err != nil {
		return fmt.Errorf("read nginx's log: %w", err)
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var l logged
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("read nginx's log, line %d: %w", n, err)
		}
		each(l)
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read nginx's log: %w", err)
	}
	return nil
}

// Requests are the URLs that were asked for so far, with how often.
func (x *Nginx) Requests() (map[string]int, error) {
	urls := map[string]int{}
	err := x.lines(func(l logged) { urls["http://"+authority(l.Host, x.cfg.Port)+l.URI]++ })
	return urls, err
}

// Servers is how each server that was asked at all was treated, to the millisecond of the log.
func (x *Nginx) Servers() (map[netip.Addr]Server, error) {
	type span struct{ begin, end float64 }
	spans := map[netip.Addr][]span{}
	if err := x.lines(func(l logged) { spans[l.Server] = append(spans[l.Server], span{l.End - l.Took, l.End}) }); err != nil {
		return nil, err
	}
	out := map[netip.Addr]Server{}
	for addr, all := range spans {
		slices.SortFunc(all, func(a, b span) int { return cmp.Compare(a.begin, b.begin) })
		v := Server{Requests: int64(len(all))}
		last := 0.0          // the end of all before
		var atWork []float64 // ends of those that have begun
		for i, s := range all {
			if gap := time.Duration((s.begin - last) * float64(time.Second)); i > 0 && gap > 0 && (v.MinGap == 0 || gap < v.MinGap) {
				v.MinGap = gap
			}
			last = max(last, s.end)
			// What ends within the log's precision has ended.
			atWork = append(slices.DeleteFunc(atWork, func(end float64) bool { return end < s.begin+0.001 }), s.end)
			v.MaxParallel = max(v.MaxParallel, len(atWork))
		}
		out[addr] = v
	}
	return out, nil
}
