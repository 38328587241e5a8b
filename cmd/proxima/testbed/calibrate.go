package testbed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"proxima/cmd/proxima/rundir"
)

// calibrations is how many pages an ordinary client downloads from each node's place.
const calibrations = 8

// calibrate downloads some pages from each node's place with an ordinary HTTP client, as nodes do without load: on fresh connections.
// The ratios of the times to those of the model of the truth say how far that may be believed. No two ask one server at a time.
func (r *run) calibrate(ctx context.Context) (ratios []float64, err error) {
	truth := rundir.NewTruth(r.world)
	var mu sync.Mutex
	for step := range min(calibrations, len(r.plan.Servers)) {
		var g errgroup.Group
		for i := range min(len(r.plan.Nodes), len(r.plan.Servers)) {
			k := (i + step*(len(r.plan.Nodes)+1)) % len(r.plan.Servers) // within a step all are different
			samples := r.bed.urls(k)
			if len(samples) == 0 {
				continue
			}
			g.Go(func() error {
				took, bytes, err := r.download(ctx, i, k, samples[(i+step)%len(samples)])
				if err != nil {
					return fmt.Errorf("calibrate from %s: %w", r.plan.Nodes[i].Name, err)
				}
				model := truth.DownloadMs(i, k, bytes, r.started)
				mu.Lock()
				defer mu.Unlock()
				ratios = append(ratios, inMs(took)/model)
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return nil, err
		}
	}
	slices.Sort(ratios)
	return ratios, nil
}

// download gets a page with an ordinary client; the server's address is dialled, names are not looked up.
func (r *run) download(ctx context.Context, i, k int, page string) (took time.Duration, bytes int64, err error) {
	client, leave, err := r.bed.client(i)
	if err != nil {
		return 0, 0, err
	}
	defer leave()
	u, err := url.Parse(page)
	if err != nil {
		return 0, 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	host := u.Host
	u.Host = netip.AddrPortFrom(r.plan.Servers[k].Addr, httpPort).String()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return 0, 0, err
	}
	req.Host = host
	begun := time.Now()
	res, err := client.Do(req)
	if err != nil {
		return 0, 0, err
	}
	bytes, err = io.Copy(io.Discard, res.Body)
	took = time.Since(begun)
	return took, bytes, errors.Join(err, res.Body.Close())
}
