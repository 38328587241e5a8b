// Package rundir defines the layout of the folder of a testbed's run: its files, and the content of those that no node writes. The
// testbed writes the folder, and compare reads it.
//
//	DIR/scenario.toml            the effective scenario
//	DIR/world.json               World: the nodes, servers and events of the run
//	DIR/testbed.json             Testbed: how exact the emulation was
//	DIR/nodes/NAME/logs/*.jsonl  the logs of each node
//
// With -separate, DIR has one such folder for each assigner, named after it. A folder from real machines can have the logs alone:
// HOST/logs/*.jsonl or *.jsonl.gz at any depth.
package rundir

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"proxima/node/netsim"
)

// Version of world.json and testbed.json.
const Version = 1

// Names of the files in the folder.
const (
	ScenarioFile = "scenario.toml"
	WorldFile    = "world.json"
	TestbedFile  = "testbed.json"
	NodesFolder  = "nodes"
	LogsFolder   = "logs"
)

// World is the truth about a run.
type World struct {
	V        int       `json:"v"`
	Scenario string    `json:"scenario"`
	Seed     uint64    `json:"seed"`
	Started  time.Time `json:"started"`
	// Assigners are those that decided. The hosts went to the nodes that the first one chose.
	Assigners []string `json:"assigners"`
	Nodes     []Node   `json:"nodes"`
	Servers   []Server `json:"servers"`
	// RTTMs has the configured round trips between nodes and servers in ms, including the access delays of both.
	RTTMs [][]float64 `json:"rtt_ms"`
	// NodeRTTMs has those between two nodes.
	NodeRTTMs [][]float64 `json:"node_rtt_ms"`
	// Events are in the order of their times.
	Events []Event `json:"events"`
	// Pages is the number of HTML pages of all sites that can be reached from the seeds; 0 if unknown.
	Pages int `json:"pages"`
}

// Node is a node of the run.
type Node struct {
	Name    string     `json:"name"` // as in NodesFolder
	Addr    netip.Addr `json:"addr"`
	City    string     `json:"city"`
	Country string     `json:"country"`
	Lat     float64    `json:"lat"`
	Lon     float64    `json:"lon"`
	// Up and Down are its bandwidth in bytes per ms (kB/s).
	Up   float64 `json:"up_bytes_per_ms"`
	Down float64 `json:"down_bytes_per_ms"`
	// LoadMs is what throttling of the node adds to a download, in ms; 0 for none.
	LoadMs float64 `json:"load_ms"`
}

// Server is a web server with its hosts.
type Server struct {
	Addr    netip.Addr `json:"addr"`
	Hosts   []string   `json:"hosts"`
	City    string     `json:"city"`
	Country string     `json:"country"`
	Lat     float64    `json:"lat"`
	Lon     float64    `json:"lon"`
	// Stated says whether its location in the database is "right", "wrong" or "missing".
	Stated string `json:"stated"`
	// Up is its bandwidth in bytes per ms; 0 is unlimited.
	Up float64 `json:"up_bytes_per_ms"`
	// ThinkMs is the median time from the request to the first byte of the answer, without the round trip.
	ThinkMs float64 `json:"think_ms"`
	// Software is "pages" (the built-in server) or "nginx".
	Software string `json:"software"`
}

// The kinds of Event.
const (
	EventBandwidth = "bandwidth" // the bandwidth of Node is Factor times the configured one
	EventCPU       = "cpu"       // Node is throttled, which adds AddMs to each download
	EventSlow      = "slow"      // Server takes AddMs longer to answer
	EventKill      = "kill"      // Node was killed with SIGKILL
	EventRestart   = "restart"   // Node was started again
	EventPartition = "partition" // Nodes cannot reach the other nodes
	EventHeal      = "heal"      // every node can reach every other again
)

// Event is something that the scenario did. Its effect lasts until the next event of its kind for the same node or server. Factor 1 or
// 0 ms ends it.
type Event struct {
	AtS    float64    `json:"at_s"` // seconds from World.Started to the actual time
	Kind   string     `json:"kind"`
	Node   string     `json:"node,omitempty"`
	Nodes  []string   `json:"nodes,omitempty"`
	Server netip.Addr `json:"server,omitzero"`
	Factor float64    `json:"factor,omitempty"`
	AddMs  float64    `json:"add_ms,omitempty"`
}

// Words says what an event did and whom it hit. ends reports that it ended what an earlier one did.
func (e Event) Words() (label, target string, ends bool) {
	label, target = e.Kind, e.Node
	switch e.Kind {
	case EventBandwidth:
		ends = e.Factor == 1 || e.Factor == 0
		if label = fmt.Sprintf("bandwidth × %.2g", e.Factor); e.Factor > 0 && e.Factor < 1 {
			label = fmt.Sprintf("bandwidth ÷ %.3g", 1/e.Factor)
		}
	case EventCPU:
		if label, ends = "CPU burnt", e.AddMs == 0; ends {
			label = "CPU free"
		}
	case EventSlow:
		label, target, ends = fmt.Sprintf("+%.3g s", e.AddMs/1000), e.Server.String(), e.AddMs == 0
	case EventKill:
		label = "kill -9"
	case EventPartition:
		target = strings.Join(e.Nodes, ", ")
	}
	return label, target, ends
}

// Testbed says how exact the emulation was.
type Testbed struct {
	V int `json:"v"`
	// Emulation is "tun", "veth" or "portable".
	Emulation string `json:"emulation"`
	// Trusted says whether the run can be trusted. Why has the reasons if it cannot.
	Trusted bool     `json:"trusted"`
	Why     []string `json:"why,omitempty"`
	// The delay errors are how much later than planned packets left the router, in ms.
	DelayErrorP50Ms float64 `json:"delay_error_p50_ms"`
	DelayErrorP99Ms float64 `json:"delay_error_p99_ms"`
	Packets         int64   `json:"packets"`
	DroppedPlanned  int64   `json:"dropped_planned"`   // by configured loss, full emulated queues and partitions
	DroppedForOwn   int64   `json:"dropped_unplanned"` // because the emulation had no room for them
	// CPUBusy is the share of the machine's processors in use. WaitP99Ms is how long nodes waited for a core, 0 where nobody measured it.
	CPUBusy   float64 `json:"cpu_busy"`
	WaitP99Ms float64 `json:"cpu_wait_p99_ms"`
	Cores     int     `json:"cores"`
	// Machine is the processor and the system, Command the command line of the run.
	Machine string `json:"machine"`
	Command string `json:"command"`
	// Calibration has the ratios of times of an ordinary HTTP client to those of the model; 0 without calibration.
	CalibrationP50 float64 `json:"calibration_p50"`
	CalibrationP10 float64 `json:"calibration_p10"`
	CalibrationP90 float64 `json:"calibration_p90"`
	Calibrations   int     `json:"calibrations"`
	// Congestion is the kernel's congestion control.
	Congestion string  `json:"congestion"`
	Seconds    float64 `json:"seconds"`
}

// Claim creates a folder if it is absent, and keeps other runs out of it until release is called or the process ends.
func Claim(dir string) (release func(), err error) {
	err = os.MkdirAll(dir, 0o755)
	var f *os.File
	if err == nil {
		f, err = os.Open(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("create folder of the run: %w", err)
	}
	// Some network file systems cannot lock a folder: there the user must take care.
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, errors.Join(fmt.Errorf("%s is in use by another run: wait for its end, or name another folder", dir), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Whole makes a run in a folder for an unfinished one, and puts it at dir when it is finished. One that fails leaves results, too: it stays, and
// loses its worlds, by which compare finds runs.
func Whole(unfinished, dir string, run func() error) error {
	if err := os.RemoveAll(unfinished); err != nil {
		return fmt.Errorf("remove an unfinished run: %w", err)
	}
	if err := run(); err != nil {
		parts, _ := os.ReadDir(unfinished) // there may be nothing
		_ = os.Remove(filepath.Join(unfinished, WorldFile))
		for _, p := range parts { // those of its assigners
			_ = os.Remove(filepath.Join(unfinished, p.Name(), WorldFile))
		}
		return err
	}
	err := os.MkdirAll(filepath.Dir(dir), 0o755)
	if err == nil {
		err = os.Rename(unfinished, dir)
	}
	if err != nil {
		return fmt.Errorf("keep a finished run: %w", err)
	}
	return nil
}

// WriteWorld writes world.json.
func WriteWorld(dir string, w World) error { w.V = Version; return write(dir, WorldFile, w) }

// WriteTestbed writes testbed.json.
func WriteTestbed(dir string, t Testbed) error { t.V = Version; return write(dir, TestbedFile, t) }

// ReadWorld reads world.json. The error is fs.ErrNotExist if the testbed did not make the run.
func ReadWorld(dir string) (w World, err error) {
	err = read(dir, WorldFile, &w, &w.V)
	return w, err
}

// ReadTestbed reads testbed.json.
func ReadTestbed(dir string) (t Testbed, err error) {
	err = read(dir, TestbedFile, &t, &t.V)
	return t, err
}

// ReadScenario returns the text of scenario.toml. The error is fs.ErrNotExist if there is none.
func ReadScenario(dir string) (string, error) {
	b, err := readFile(filepath.Join(dir, ScenarioFile))
	return string(b), err
}

func write(dir, name string, v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name), append(b, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// read reads a file, whose version is then at version.
func read(dir, name string, v any, version *int) error {
	path := filepath.Join(dir, name)
	b, err := readFile(path)
	if err != nil {
		return err
	}
	if err = json.Unmarshal(b, v); err == nil && *version != Version {
		err = fmt.Errorf("version %d, not %d", *version, Version)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", path, err)
	}
	return nil
}

func readFile(path string) (b []byte, err error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
	case !info.Mode().IsRegular(): // opening a pipe waits for somebody who writes to it
		err = errors.New("it is no regular file")
	default:
		b, err = os.ReadFile(path)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	return b, nil
}

// DownloadMs returns the expected time of a page of some bytes at a node from a server (their indices), at a time. It changes only at
// events.
func (w *World) DownloadMs(node, server int, bytes int64, at time.Time) float64 {
	n, s := w.Nodes[node], w.Servers[server]
	down, think, load := n.Down, s.ThinkMs, n.LoadMs
	since := at.Sub(w.Started).Seconds()
	for _, e := range w.Events {
		if e.AtS > since {
			break
		}
		switch {
		case e.Kind == EventBandwidth && e.Node == n.Name:
			down = n.Down * e.Factor
		case e.Kind == EventCPU && e.Node == n.Name:
			load = n.LoadMs + e.AddMs
		case e.Kind == EventSlow && e.Server == s.Addr:
			think = s.ThinkMs + e.AddMs
		}
	}
	bandwidth := down
	if s.Up > 0 && (bandwidth == 0 || s.Up < bandwidth) {
		bandwidth = s.Up
	}
	return netsim.DownloadMs(w.RTTMs[node][server], bandwidth, think, load, bytes)
}

// Best returns the node with the least expected time among those for which alive returns true, and this time; -1 if there is none.
func (w *World) Best(server int, bytes int64, at time.Time, alive func(node int) bool) (node int, ms float64) {
	node, ms = -1, math.Inf(1)
	for i := range w.Nodes {
		if alive(i) {
			if d := w.DownloadMs(i, server, bytes, at); d < ms {
				node, ms = i, d
			}
		}
	}
	return node, ms
}

// Alive reports whether a node runs at a time. Between a kill and the next restart it does not.
func (w *World) Alive(node int, at time.Time) bool {
	since, alive := at.Sub(w.Started).Seconds(), true
	for _, e := range w.Events {
		if e.AtS > since {
			break
		}
		if e.Node == w.Nodes[node].Name && (e.Kind == EventKill || e.Kind == EventRestart) {
			alive = e.Kind == EventRestart
		}
	}
	return alive
}
