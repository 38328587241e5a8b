package node

import (
	"errors"
	"fmt"
	"net/http"
	"runtime/pprof"
	"strconv"
	"time"

	"proxima/frontier/identity"
	"proxima/node/bell"
)

// Acted is the answer to a call that changes something.
type Acted struct {
	// Refused counts seeds that were not added, by reason.
	Refused map[string]int `json:"refused,omitempty"`
	// Dropped counts URLs that were given up.
	Dropped int `json:"dropped,omitempty"`
	// Gone are the members that the node no longer waits for.
	Gone []string `json:"gone,omitempty"`
	// Moved are the hosts that have another owner now.
	Moved []string `json:"moved,omitempty"`
	// Set are the keys that have changed. NotSet has messages about keys that could not change.
	Set    []string `json:"set,omitempty"`
	NotSet []string `json:"not_set,omitempty"`
	// Next says what to do next.
	Next string `json:"next,omitempty"`
}

// maxSeeds bounds a list of seeds, in bytes.
const maxSeeds = 16 << 20

// steerRoutes are the calls that steer this node or the overlay, and those that show the inside of a node.
func steerRoutes() []route {
	host := param{"host", "the host, which this node owns; a name without a scheme stands for those of http and https", true}
	on, why := param{"on", "a host, with all below it, or a prefix of addresses", true}, param{"why", "the reason, for people", false}
	return []route{
		{method: "POST", path: "/pause", does: "Lets no new request begin until resume, in later lives of the node, too. What is under way ends.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.operator.Pause(c.by) }},
		{method: "POST", path: "/resume", does: "Ends pause.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.operator.Resume(c.by) }},
		{method: "POST", path: "/seeds", does: "Adds seeds to the crawl as if they had been there from the start.", answer: Acted{},
			body: "URLs, one a line", run: takeSeeds},
		{method: "POST", path: "/drop", does: "Gives up the pending URLs of a host that this node owns.", answer: Acted{},
			query: []param{{"host", "the host; a name without a scheme stands for those of http and https", true}},
			run: func(n *Node, c *apiCall) (any, error) {
				dropped, err := n.operator.Drop(c.Context(), c.param("host"), c.by)
				return Acted{Dropped: dropped}, err
			}},
		{method: "POST", path: "/go-alone", does: "Says that the members that do not answer the node are gone for good. It asks them first, for some seconds.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) {
				gone, err := n.operator.GoAlone(c.by)
				return Acted{Gone: gone}, err
			}},
		{method: "POST", path: "/block", does: "Has all nodes leave a host or a prefix of addresses alone, for good.", answer: Blocked{},
			query: []param{on, why}, run: func(n *Node, c *apiCall) (any, error) { return answerBlock(n, c, false) }},
		{method: "POST", path: "/unblock", does: "Ends a block.", answer: Blocked{},
			query: []param{on, why}, run: func(n *Node, c *apiCall) (any, error) { return answerBlock(n, c, true) }},
		{method: "GET", path: "/blocks", does: "Lists what is blocked, by whom, when and why.", answer: []Block{},
			run: func(n *Node, _ *apiCall) (any, error) { return n.operator.Blocks(), nil }},
		{method: "POST", path: "/retry", does: "Has a host asked now, as if it had never failed.", answer: Acted{}, query: []param{host},
			run: func(n *Node, c *apiCall) (any, error) {
				return Acted{}, n.operator.Retry(c.Context(), c.param("host"), c.by)
			}},
		{method: "POST", path: "/move", does: "Makes another node the owner of a host and of the others of its server.", answer: Acted{},
			query: []param{host, {"to", "the id of the node, or its beginning", true}},
			run: func(n *Node, c *apiCall) (any, error) {
				moved, err := n.operator.Move(c.Context(), c.param("host"), c.param("to"), c.by)
				return Acted{Moved: moved}, err
			}},
		{method: "POST", path: "/drain", does: "Has the node hand all its hosts to others, and then stop.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) { return Acted{}, n.operator.Drain(c.by) }},
		{method: "POST", path: "/set", does: "Gives a live key of the configuration another value, until the node ends or reads its file again.", answer: Acted{},
			query: []param{{"key", "the key, like crawl.fetchers", true}, {"value", "as in a file; quotes may be left out", true}},
			run: func(n *Node, c *apiCall) (any, error) {
				return Acted{Set: []string{c.param("key")}}, n.operator.Set(c.Context(), c.param("key"), c.param("value"), c.by)
			}},
		{method: "POST", path: "/reload", does: "Reads the configuration file again, and takes what is live of it.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) {
				changed, refused, err := n.operator.Reload(c.Context(), c.by)
				return Acted{Set: changed, NotSet: refused}, err
			}},
		{method: "POST", path: "/rotate", does: "Takes the secret file of this node one step further on the way to a new secret.", answer: Acted{},
			run: func(n *Node, c *apiCall) (any, error) {
				next, err := n.operator.RotateSecret(c.by)
				return Acted{Next: next}, err
			}},
		{method: "GET", path: "/snapshot", does: "Writes the hosts of this node and their pending URLs, one JSON object a line; the last one counts them.",
			media: "application/x-ndjson", stream: answerSnapshot},
		{method: "GET", path: "/profile", does: "Profiles the program, for go tool pprof.", media: "application/octet-stream", stream: answerProfile,
			query: []param{{"kind", "cpu, or one that the runtime has: heap, allocs, goroutine, mutex, block", true}, {"seconds", "how long, for cpu: 1 to 50", false}}},
	}
}

func takeSeeds(n *Node, c *apiCall) (any, error) {
	seeds, err := identity.ReadSeeds(http.MaxBytesReader(nil, c.Body, maxSeeds))
	if err = errors.Join(append(seeds.Errors, err)...); err != nil {
		return nil, badInput(err)
	}
	if len(seeds.URLs) == 0 {
		return nil, badInput(errors.New("no URL was given"))
	}
	refused, err := n.operator.AddSeeds(c.Context(), seeds.URLs, c.by)
	return Acted{Refused: refused}, err
}

// Blocked is the answer to /block and /unblock.
type Blocked struct {
	// Changed is false if the target was already blocked, or not blocked.
	Changed bool  `json:"changed"`
	Block   Block `json:"block"`
}

func answerBlock(n *Node, c *apiCall, off bool) (any, error) {
	b, changed, err := n.operator.Block(c.param("on"), c.by, c.param("why"), off)
	return Blocked{changed, b}, err
}

// profileFor is how long the processor is profiled by default, in seconds.
const profileFor = 10

func answerProfile(_ *Node, w http.ResponseWriter, c *apiCall) {
	seconds, err := strconv.Atoi(c.param("seconds"))
	if c.param("seconds") == "" {
		seconds, err = profileFor, nil
	}
	kind, profile := c.param("kind"), pprof.Lookup(c.param("kind"))
	switch {
	case err != nil || seconds < 1 || seconds > 50:
		err = fmt.Errorf("seconds: %.20q is not between 1 and 50", c.param("seconds"))
	case kind != "cpu" && profile == nil:
		err = fmt.Errorf("kind: there is no profile %.20q", kind)
	}
	if err != nil {
		answer(w, http.StatusBadRequest, trouble{err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	if kind != "cpu" {
		_ = profile.WriteTo(w, 0) // if this fails, the reader has gone
		return
	}
	if err := pprof.StartCPUProfile(w); err != nil {
		answer(w, http.StatusConflict, trouble{errors.Join(errors.New("another profile is being made"), err).Error()})
		return
	}
	defer pprof.StopCPUProfile()
	_ = bell.Sleep(c.Context(), time.Duration(seconds)*time.Second)
}
