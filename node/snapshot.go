package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"proxima/frontier"
	"proxima/frontier/identity"
)

// The lines of a snapshot. A host comes before its URLs.
type (
	snapshotHost struct {
		Host    string `json:"host"`
		Role    string `json:"role"`
		Done    uint64 `json:"done"`
		Failed  uint64 `json:"failed"`
		Dropped uint64 `json:"dropped"`
	}
	snapshotURL struct {
		URL   string `json:"url"`
		Depth uint8  `json:"depth"`
	}
	snapshotEnd struct {
		Hosts int `json:"hosts"`
		URLs  int `json:"urls"`
	}
)

const (
	// snapshotHosts is how many hosts are read at once. snapshotURLs and snapshotBytes bound the URLs that are read at once.
	snapshotHosts, snapshotURLs, snapshotBytes = 256, 1000, 1 << 20
	// snapshotPatience is how long the reader of a snapshot may take for each part.
	snapshotPatience = time.Minute
)

// writeSnapshot writes all hosts of a frontier, including replicas, and their pending URLs, one JSON object a line. The crawl goes on
// meanwhile, so each part of a host shows another moment. The last line counts hosts and URLs: if it is missing, the snapshot is not
// complete.
func writeSnapshot(ctx context.Context, f *frontier.Frontier, w io.Writer) error {
	out := json.NewEncoder(w)
	var end snapshotEnd
	for after := ""; ; {
		hosts, err := f.List(ctx, after, snapshotHosts)
		if err != nil {
			return err
		}
		if len(hosts) == 0 {
			return out.Encode(end)
		}
		for _, h := range hosts {
			after = h.Host
			if err := out.Encode(snapshotHost{Host: h.Host, Role: h.Role.String(), Done: h.Done, Failed: h.Failed, Dropped: h.Dropped}); err != nil {
				return err
			}
			end.Hosts++
			ended := map[uint64]bool{}
			if h.Role == frontier.Replica { // what its owner has done stays among what is pending until the host is taken over
				err := eachPart(ctx, f, h.Host, func(c frontier.Chunk) (bool, error) {
					for _, hash := range c.Done {
						ended[hash] = true
					}
					return true, nil
				})
				if err != nil {
					return err
				}
			}
			err := eachPart(ctx, f, h.Host, func(c frontier.Chunk) (more bool, err error) {
				for _, p := range c.Pending {
					u := identity.URL{Host: h.Host, Path: p.Path}
					if ended[u.Hash()] {
						continue
					}
					if err := out.Encode(snapshotURL{u.String(), p.Depth}); err != nil {
						return false, err
					}
					end.URLs++
				}
				return len(c.Done) == 0 && len(c.Pages) == 0, nil // pending URLs come first
			})
			if err != nil {
				return err
			}
		}
	}
}

// eachPart calls read with the parts of a host, until it wants no more.
func eachPart(ctx context.Context, f *frontier.Frontier, host string, read func(frontier.Chunk) (more bool, err error)) error {
	var at frontier.Cursor
	for {
		c, next, over, err := f.Export(ctx, host, at, snapshotURLs, snapshotBytes)
		if err != nil {
			return err
		}
		more, err := read(c)
		if err != nil || over || !more {
			return err
		}
		at = next
	}
}

func answerSnapshot(n *Node, w http.ResponseWriter, c *apiCall) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	// If this fails, the reader sees that the last line is missing.
	if err := writeSnapshot(c.Context(), n.frontier, patient{w, http.NewResponseController(w)}); err != nil && c.Context().Err() == nil {
		n.warn(fmt.Errorf("write snapshot: %w", err))
	}
}

// patient gives the reader of an answer time for each part, instead of for the whole.
type patient struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (p patient) Write(b []byte) (int, error) {
	if err := p.control.SetWriteDeadline(time.Now().Add(snapshotPatience)); err != nil && !errors.Is(err, http.ErrNotSupported) {
		return 0, err
	}
	return p.ResponseWriter.Write(b)
}
