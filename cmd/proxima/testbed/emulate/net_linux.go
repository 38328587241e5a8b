package emulate

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// orderPatience is how long the router may take to answer.
const orderPatience = 10 * time.Second

// Net is an emulated network that is up. Its methods are safe for concurrent use.
type Net struct {
	cfg        Config
	emulation  string
	namespaces []*namespace
	router     *exec.Cmd
	begin      time.Time
	watch      *watch

	mu      sync.Mutex // guards what follows: one order is under way at a time
	control *os.File
	in      *gob.Decoder
	out     *gob.Encoder
	last    Stats
}

// New builds the network in a process started by Reexec: namespaces, devices, addresses and the router. Run must follow; it
// releases them.
func New(cfg Config) (_ *Net, err error) {
	if err := cfg.check(); err != nil {
		return nil, fmt.Errorf("emulated network: %w", err)
	}
	if !Inside() {
		return nil, errors.New("emulated network: this process has no namespaces of its own; Reexec makes them")
	}
	n := &Net{cfg: cfg, begin: time.Now()}
	defer func() {
		if err != nil {
			n.release()
			err = fmt.Errorf("emulated network: %w", err)
		}
	}()
	// A table of open files that grows while the machine is busy can stall every accept for seconds.
	if fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 8191); err == nil {
		unix.Close(fd)
	}
	if n.watch, err = newWatch(); err != nil {
		return nil, err
	}
	setup, ports, err := n.build()
	defer func() {
		for _, p := range ports {
			unix.Close(p) // the router has its own
		}
	}()
	if err != nil {
		return nil, err
	}
	if err := n.startRouter(setup, ports); err != nil {
		return nil, err
	}
	return n, nil
}

// build makes the namespaces and their devices, and says what the router must know and the descriptors it needs.
func (n *Net) build() (setup, []int, error) {
	s := setup{Endpoints: n.cfg.Endpoints, Seed: n.cfg.Seed}
	addrs := map[string][]netip.Addr{}
	var names []string
	for _, e := range s.Endpoints {
		if addrs[e.Namespace] == nil {
			names = append(names, e.Namespace)
		}
		addrs[e.Namespace] = append(addrs[e.Namespace], e.Addr)
		s.Ports = append(s.Ports, slices.Index(names, e.Namespace))
	}
	s.Devices = len(names)
	size := len(s.Endpoints)
	s.Paths = make([]Path, size*size)
	for i := range size {
		for k := range size {
			if s.Ports[i] != s.Ports[k] {
				s.Paths[i*size+k] = n.cfg.Path(i, k)
			}
		}
	}
	n.emulation = n.cfg.Emulation
	if n.emulation == "" {
		n.emulation = TUN
		if fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC, 0); err != nil {
			n.emulation = Veth
		} else {
			unix.Close(fd)
		}
	}
	s.Veth = n.emulation == Veth
	if s.Veth { // the router's ends of the devices are in the namespace of this process
		if _, err := tune(); err != nil {
			return s, nil, err
		}
	}
	var ports []int
	for i, name := range names {
		ns, port, err := newNode(i, addrs[name], s.Veth)
		if err != nil {
			return s, ports, fmt.Errorf("namespace %s: %w", name, err)
		}
		ns.name = name
		n.namespaces, ports = append(n.namespaces, ns), append(ports, port)
	}
	return s, ports, nil
}

// newNode makes the namespace with that number and returns it with the router's end of its device.
func newNode(number int, addrs []netip.Addr, veth bool) (_ *namespace, port int, err error) {
	ns, flags := &namespace{}, 0
	prepare := func(int) (err error) {
		if ns.congestion, err = tune(); err == nil && !veth {
			port, err = openTUN()
		}
		return err
	}
	if ns.fd, err = newNamespace(prepare); err != nil {
		return nil, 0, err
	}
	if veth {
		flags = unix.IFF_NOARP
		if port, err = openVeth(fmt.Sprintf("node%d", number), ns.fd); err != nil {
			return nil, 0, err
		}
	}
	err = inNamespace(ns.fd, func() error {
		index, err := deviceIndex(deviceName)
		if err != nil {
			return err
		}
		if veth {
			if err := plainPackets(deviceName); err != nil {
				return err
			}
		}
		if err := address(index, flags, addrs); err != nil {
			return err
		}
		ns.dropped, err = droppedHere()
		return err
	})
	return ns, port, err
}

// startRouter starts the router's process, gives it its setup and waits until it carries packets.
func (n *Net) startRouter(s setup, ports []int) error {
	program, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return fmt.Errorf("start the router: %w", err)
	}
	n.control = os.NewFile(uintptr(ends[0]), "router")
	theirs := os.NewFile(uintptr(ends[1]), "router")
	defer theirs.Close()
	cmd := exec.Command(program, routerCommand)
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{theirs}
	for _, p := range ports {
		// A copy of each descriptor, so that closing the files leaves the originals to New.
		fd, err := unix.FcntlInt(uintptr(p), unix.F_DUPFD_CLOEXEC, 0)
		if err != nil {
			return fmt.Errorf("start the router: %w", err)
		}
		f := os.NewFile(uintptr(fd), deviceName)
		defer f.Close()
		cmd.ExtraFiles = append(cmd.ExtraFiles, f)
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the router: %w", err)
	}
	n.router = cmd
	n.in, n.out = gob.NewDecoder(n.control), gob.NewEncoder(n.control)
	var first report
	if err := n.control.SetDeadline(time.Now().Add(orderPatience)); err != nil {
		return fmt.Errorf("set the router up: %w", err)
	}
	if err := n.out.Encode(s); err != nil {
		return fmt.Errorf("set the router up: %w", err)
	}
	if err := n.in.Decode(&first); err != nil {
		return fmt.Errorf("set the router up: %w", err)
	}
	return nil
}

// Run keeps the network up until ctx ends, then returns nil; an error if the router fails before. It releases the network,
// which must not be in use any more: processes that are left in the namespaces reach nobody.
func (n *Net) Run(ctx context.Context) error {
	watching, stop := context.WithCancel(ctx)
	defer stop()
	died := make(chan error, 1)
	var group sync.WaitGroup
	group.Go(func() { n.watch.run(watching) })
	group.Go(func() { died <- n.router.Wait() })
	var err error
	select {
	case <-ctx.Done():
		_, err = n.Stats() // the last ones
		_ = n.router.Process.Kill()
	case cause := <-died:
		err = fmt.Errorf("emulated network: the router ended: %w", cause)
	}
	stop()
	group.Wait()
	n.release()
	return err
}

// release gives everything back; the router's process has ended, or ends now.
func (n *Net) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.control != nil {
		n.control.Close()
		n.control = nil
	}
	if n.router != nil && n.router.ProcessState == nil {
		_ = n.router.Wait()
	}
	for _, ns := range n.namespaces {
		unix.Close(ns.fd)
	}
	n.namespaces = nil
}

func (n *Net) namespace(name string) (*namespace, error) {
	for _, ns := range n.namespaces {
		if ns.name == name {
			return ns, nil
		}
	}
	return nil, fmt.Errorf("no namespace %q in the emulated network", name)
}

// congestions lists the congestion controls of the namespaces.
func (n *Net) congestions() string {
	var names []string
	for _, ns := range n.namespaces {
		if !slices.Contains(names, ns.congestion) {
			names = append(names, ns.congestion)
		}
	}
	return strings.Join(names, ",")
}
