package emulate

import (
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// orderPatience is the time limit for an answer of the router.
const orderPatience = 10 * time.Second

// Net is an emulated network that is up. Its methods are safe for concurrent use.
type Net struct {
	cfg        Config
	namespaces []*namespace
	router     *exec.Cmd
	begin      time.Time
	watch      *watch

	mu      sync.Mutex // guards the fields below, and is held during an order
	control *os.File
	in      *gob.Decoder
	out     *gob.Encoder
}

// New builds the network: namespaces, devices, addresses and the router. The process must have been started by Reexec. The caller must then
// call Run, which releases the network.
func New(cfg Config) (_ *Net, err error) {
	if len(cfg.Endpoints) > EndpointsMost {
		return nil, fmt.Errorf("emulated network: %d endpoints, %d at most", len(cfg.Endpoints), EndpointsMost)
	}
	if !Inside() {
		return nil, errors.New("emulated network: this process was not started by Reexec")
	}
	n := &Net{cfg: cfg, begin: time.Now()}
	defer func() {
		if err != nil {
			n.release()
			err = fmt.Errorf("emulated network: %w", err)
		}
	}()
	// Enlarge the table of open files now. If it grew on a busy machine, every accept could block for seconds.
	if fd, err := unix.FcntlInt(1, unix.F_DUPFD_CLOEXEC, 8191); err == nil {
		unix.Close(fd)
	}
	if n.watch, err = newWatch(); err != nil {
		return nil, err
	}
	setup, ports, err := n.build()
	defer func() {
		for _, p := range ports {
			p.Close() // the router has copies
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

// build creates the namespaces and their devices. It returns the router's setup and the ends of the devices that it needs.
func (n *Net) build() (setup, []*os.File, error) {
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
	if n.cfg.Emulation == "" {
		n.cfg.Emulation = Veth
		if fd, err := unix.Open(tunPath, unix.O_RDWR|unix.O_CLOEXEC, 0); err == nil {
			unix.Close(fd)
			n.cfg.Emulation = TUN
		}
	}
	s.Veth = n.cfg.Emulation == Veth
	if s.Veth { // this namespace has the router's ends of the devices
		if _, err := tune(); err != nil {
			return s, nil, err
		}
	}
	var ports []*os.File
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

// newNode creates the namespace with that number. It returns the namespace and the router's end of its device.
func newNode(number int, addrs []netip.Addr, veth bool) (_ *namespace, port *os.File, err error) {
	ns, fd := &namespace{}, -1
	prepare := func() (err error) {
		if ns.congestion, err = tune(); err == nil && !veth {
			fd, err = openTUN()
		}
		return err
	}
	if ns.fd, err = newNamespace(prepare); err == nil && veth {
		fd, err = openVeth(fmt.Sprintf("node%d", number), ns.fd)
	}
	if err != nil {
		return nil, nil, err
	}
	err = inNamespace(ns.fd, func() (err error) {
		if veth {
			err = plainPackets(deviceName)
		}
		if err == nil {
			err = address(addrs)
		}
		if err == nil {
			ns.dropped, err = droppedHere()
		}
		return err
	})
	return ns, os.NewFile(uintptr(fd), deviceName), err
}

// startRouter starts the router's process, sends it its setup, and waits until it is ready.
func (n *Net) startRouter(s setup, ports []*os.File) error {
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
	cmd.ExtraFiles = append([]*os.File{theirs}, ports...)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the router: %w", err)
	}
	n.router = cmd
	n.in, n.out = gob.NewDecoder(n.control), gob.NewEncoder(n.control)
	if _, err := n.exchange(s); err != nil {
		return fmt.Errorf("set the router up: %w", err)
	}
	return nil
}

// exchange sends a message to the router and returns the statistics that it answers with.
func (n *Net) exchange(message any) (r Stats, err error) {
	if err := n.control.SetDeadline(time.Now().Add(orderPatience)); err != nil {
		return r, err
	}
	if err := n.out.Encode(message); err != nil {
		return r, err
	}
	return r, n.in.Decode(&r)
}

// Run keeps the network up until ctx ends, and then releases it. It returns an error if the router fails before. Processes that remain in the
// namespaces can no longer reach each other.
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
		_ = n.router.Process.Kill()
	case cause := <-died:
		err = fmt.Errorf("emulated network: the router ended: %w", cause)
	}
	stop()
	group.Wait()
	n.release()
	return err
}

// release closes everything and waits for the end of the router's process.
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
	i := slices.IndexFunc(n.namespaces, func(ns *namespace) bool { return ns.name == name })
	if i < 0 {
		return nil, fmt.Errorf("emulated network: there is no namespace %q", name)
	}
	return n.namespaces[i], nil
}

// SetBandwidth changes the bandwidth of an address, in bytes per ms, for packets that are sent from now on. 0 is unlimited.
func (n *Net) SetBandwidth(addr netip.Addr, upBytesPerMs, downBytesPerMs float64) error {
	i, err := n.endpoints([]netip.Addr{addr})
	if err == nil {
		_, err = n.order(order{Endpoint: i[0], Bandwidth: &[2]float64{upBytesPerMs, downBytesPerMs}})
	}
	return err
}

// Partition drops all packets between a and b, and none of those that an earlier call dropped. If a or b is empty, it drops none.
func (n *Net) Partition(a, b []netip.Addr) error {
	from, err := n.endpoints(a)
	to, errTo := n.endpoints(b)
	if err = errors.Join(err, errTo); err == nil {
		_, err = n.order(order{Cut: &[2][]int{from, to}})
	}
	return err
}

// Stats returns the statistics since New.
func (n *Net) Stats() (Stats, error) { return n.order(order{}) }

func (n *Net) endpoints(addrs []netip.Addr) ([]int, error) {
	var found []int
	for _, a := range addrs {
		i := slices.IndexFunc(n.cfg.Endpoints, func(e Endpoint) bool { return e.Addr == a })
		if i < 0 {
			return nil, fmt.Errorf("emulated network: %v is not an endpoint", a)
		}
		found = append(found, i)
	}
	return found, nil
}

// order sends an order to the router and returns the statistics that it answers with.
func (n *Net) order(o order) (s Stats, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.control == nil {
		return s, errors.New("emulated network: it has ended")
	}
	if s, err = n.exchange(o); err != nil {
		return s, fmt.Errorf("emulated network: order the router: %w", err)
	}
	s.Emulation, s.Cores, s.Elapsed = n.cfg.Emulation, runtime.NumCPU(), time.Since(n.begin)
	var controls []string
	for _, ns := range n.namespaces {
		controls = append(controls, ns.congestion)
		err = errors.Join(err, inNamespace(ns.fd, func() error {
			dropped, err := droppedHere()
			s.Unplanned += dropped - ns.dropped
			return err
		}))
	}
	slices.Sort(controls)
	s.Congestion = strings.Join(slices.Compact(controls), ",")
	if err := errors.Join(err, n.watch.tell(&s)); err != nil {
		return s, fmt.Errorf("emulated network: %w", err)
	}
	return s, nil
}

// Do runs f on a thread inside a namespace. Sockets that f opens belong to it. Sockets that other goroutines open do not.
func (n *Net) Do(namespace string, f func() error) error {
	ns, err := n.namespace(namespace)
	if err != nil {
		return err
	}
	return inNamespace(ns.fd, f)
}

// Start starts a command inside a namespace. Stats includes its waits for a core.
func (n *Net) Start(namespace string, cmd *exec.Cmd) error {
	cmd.Env = slices.DeleteFunc(cmd.Environ(), func(e string) bool { return strings.HasPrefix(e, insideVariable) }) // those of this package
	err := n.Do(namespace, cmd.Start)
	if err == nil {
		n.watch.add(cmd.Process.Pid)
	}
	return err
}

// Listen listens inside a namespace, on a literal address and port.
func (n *Net) Listen(ctx context.Context, namespace, network, address string) (net.Listener, error) {
	return open(ctx, n, namespace, network, address, new(net.ListenConfig).Listen)
}

// ListenPacket listens for datagrams inside a namespace, on a literal address and port.
func (n *Net) ListenPacket(ctx context.Context, namespace, network, address string) (net.PacketConn, error) {
	return open(ctx, n, namespace, network, address, new(net.ListenConfig).ListenPacket)
}

// Dialer returns a function for http.Transport that connects from inside a namespace to literal addresses and ports.
func (n *Net) Dialer(namespace string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		return open(ctx, n, namespace, network, address, new(net.Dialer).DialContext)
	}
}

// open runs f inside a namespace, but refuses names: other threads, outside the namespace, would resolve them.
func open[T any](ctx context.Context, n *Net, namespace, network, address string,
	f func(ctx context.Context, network, address string) (T, error)) (t T, err error) {
	if _, err := netip.ParseAddrPort(address); err != nil {
		return t, fmt.Errorf("emulated network: %w", err)
	}
	err = n.Do(namespace, func() (err error) {
		t, err = f(ctx, network, address)
		return err
	})
	return t, err
}
