package emulate

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"proxima/ncoord/quantile"
)

// setup is the first message to the router's process. Its devices are the descriptors from 4 on.
type setup struct {
	Endpoints []Endpoint
	Ports     []int // the device of each endpoint
	Devices   int
	Veth      bool
	Paths     []Path
	Seed      uint64
}

// order is a later message. The router answers each message with its statistics.
type order struct {
	Endpoint  int
	Bandwidth *[2]float64 // of the endpoint, up and down
	Cut       *[2][]int   // no packet between one of the first and one of the second endpoints passes
}

// router carries packets and obeys orders, all on one thread.
type router struct {
	fabric  *fabric
	ports   []int // of each endpoint
	devices []int // descriptors
	veth    bool
	head    int // where in a frame begins what a device reads and writes
	begin   time.Time
	epoll   int
	in      *gob.Decoder
	out     *gob.Encoder
	late    quantile.Histogram
	header  []byte // of Ethernet, for veth
}

const (
	controlFD     = 3
	controlDevice = -1
	// burst is the number of packets to read from a device before the next one.
	burst = 32
)

// runRouter is the router's process. It ends when its parent closes the control connection.
func runRouter() error {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP) // the parent ends this process
	debug.SetGCPercent(-1)                                // packets need no allocation
	debug.SetMemoryLimit(256 << 20)
	runtime.GOMAXPROCS(8) // so that no thread waits for a processor after a system call
	runtime.LockOSThread()
	control := os.NewFile(controlFD, "control")
	in := gob.NewDecoder(control)
	var s setup
	if err := in.Decode(&s); err != nil {
		return fmt.Errorf("read the router's setup: %w", err)
	}
	r, err := newRouter(s)
	if err != nil {
		return err
	}
	schedule()
	r.in, r.out = in, gob.NewEncoder(control)
	if err := r.out.Encode(r.count()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return r.carry()
}

func newRouter(s setup) (*router, error) {
	r := &router{fabric: newFabric(s.Endpoints, s.Paths, s.Seed), ports: s.Ports, veth: s.Veth, begin: time.Now()}
	if !s.Veth { // TUN devices know no Ethernet header
		r.head = frameHeader
	}
	r.header = slices.Concat(nodeMAC(), routerMAC(), []byte{unix.ETH_P_IP >> 8, unix.ETH_P_IP & 0xff})
	var err error
	if r.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("make the router's epoll: %w", err)
	}
	watch := func(fd, device int) error {
		e := unix.EpollEvent{Events: unix.EPOLLIN, Fd: int32(device)}
		if err := unix.EpollCtl(r.epoll, unix.EPOLL_CTL_ADD, fd, &e); err != nil {
			return fmt.Errorf("watch device %d: %w", device, err)
		}
		return nil
	}
	if err := watch(controlFD, controlDevice); err != nil {
		return nil, err
	}
	for d := range s.Devices {
		fd := controlFD + 1 + d
		r.devices = append(r.devices, fd)
		if err := errors.Join(unix.SetNonblock(fd, true), watch(fd, d)); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func (r *router) now() int64 { return int64(time.Since(r.begin)) }

// carry reads, delays and writes packets until the orders end.
func (r *router) carry() error {
	events := make([]unix.EpollEvent, 64)
	for {
		r.deliver()
		n, err := r.wait(events)
		if err != nil {
			return err
		}
		for _, e := range events[:n] {
			if e.Fd != controlDevice {
				r.receive(int(e.Fd))
			} else if err := r.obey(); errors.Is(err, io.EOF) {
				return nil
			} else if err != nil {
				return err
			}
		}
	}
}

// wait blocks until a device has packets or a packet is due. ppoll waits exactly, while the runtime's timers and epoll_wait round to a
// millisecond.
func (r *router) wait(events []unix.EpollEvent) (n int, err error) {
	var timeout *unix.Timespec // no limit
	if due, ok := r.fabric.next(); ok {
		left := unix.NsecToTimespec(max(due-r.now(), 0))
		timeout = &left
	}
	if n, err = unix.Ppoll([]unix.PollFd{{Fd: int32(r.epoll), Events: unix.POLLIN}}, timeout, nil); n > 0 {
		n, err = unix.EpollWait(r.epoll, events, 0)
	}
	switch {
	case errors.Is(err, unix.EINTR):
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("wait for packets: %w", err)
	}
	return n, nil
}

func (r *router) receive(device int) {
	fd, head := r.devices[device], r.head
	for range burst {
		p := r.fabric.blank()
		n, e := readRaw(fd, p.frame[head:])
		if e != 0 {
			r.fabric.done(p)
			return
		}
		now := r.now()
		p.size = n + head - frameHeader
		if r.identify(p, device) {
			r.fabric.enter(now, p)
		} else {
			r.fabric.stats.Strays++
			r.fabric.done(p)
		}
		if due, ok := r.fabric.next(); ok && due <= now {
			r.deliver()
		}
	}
}

// identify sets the endpoints of a packet from its IPv4 header. It returns false for a stray packet.
func (r *router) identify(p *packet, device int) bool {
	ip := p.frame[frameHeader:]
	if p.size < 20 || ip[0]>>4 != 4 {
		return false
	}
	from, known := r.fabric.index[netip.AddrFrom4([4]byte(ip[12:16]))]
	to, knows := r.fabric.index[netip.AddrFrom4([4]byte(ip[16:20]))]
	p.from, p.to = from, to
	return known && knows && r.ports[from] == device && r.ports[to] != device
}

// deliver writes the packets that are due.
func (r *router) deliver() {
	for {
		now := r.now()
		p, due := r.fabric.leave(now)
		if p == nil {
			return
		}
		r.late.Add(time.Duration(now-due), 1)
		if r.veth {
			copy(p.frame[:], r.header)
		}
		if e := writeRaw(r.devices[r.ports[p.to]], p.frame[r.head:frameHeader+p.size]); e != 0 {
			r.fabric.stats.Unplanned++
		} else {
			r.fabric.stats.Packets++
		}
		r.fabric.done(p)
	}
}

// obey executes the order that has come, and answers it. It returns io.EOF when the parent has closed the connection. The next order does
// not come before the answer, so the decoder holds nothing back.
func (r *router) obey() error {
	var o order
	if err := r.in.Decode(&o); err != nil {
		return fmt.Errorf("read an order: %w", err)
	}
	switch {
	case o.Bandwidth != nil:
		r.fabric.setBandwidth(o.Endpoint, o.Bandwidth[0], o.Bandwidth[1])
	case o.Cut != nil:
		r.fabric.cut(o.Cut[0], o.Cut[1])
	}
	if err := r.out.Encode(r.count()); err != nil {
		return fmt.Errorf("report: %w", err)
	}
	return nil
}

func (r *router) count() Stats {
	if r.veth {
		for _, fd := range r.devices {
			// Reading the statistics resets them.
			if s, err := unix.GetsockoptTpacketStats(fd, unix.SOL_PACKET, unix.PACKET_STATISTICS); err == nil {
				r.fabric.stats.Unplanned += int64(s.Drops)
			}
		}
	}
	c := r.fabric.stats
	c.LateP50, c.LateP99 = r.late.Of(0.5), r.late.Of(0.99)
	return c
}

// schedule gives this process the best scheduling that the kernel allows. It applies to every thread, because the thread that carries packets
// sometimes waits for another thread of the runtime.
func schedule() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0) // ns; by default sleeps are up to 50 µs longer
	if setThreads(unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 1}) {
		return
	}
	for _, nice := range []int32{-20, 0} {
		// With a short slice, the EEVDF scheduler (since Linux 6.12) runs a thread sooner after it wakes. Its share remains the same.
		if setThreads(unix.SchedAttr{Policy: unix.SCHED_NORMAL, Nice: nice, Runtime: uint64(100 * time.Microsecond)}) {
			return
		}
	}
}

// setThreads sets the scheduling of all threads of this process, and of later ones. It returns false if the kernel refuses.
func setThreads(attr unix.SchedAttr) bool {
	attr.Size = unix.SizeofSchedAttr
	threads, err := filepath.Glob("/proc/self/task/*")
	for _, path := range threads {
		id, e := strconv.Atoi(filepath.Base(path))
		if e == nil {
			e = unix.SchedSetAttr(id, &attr, 0)
		}
		if !errors.Is(e, unix.ESRCH) {
			err = errors.Join(err, e)
		}
	}
	return err == nil && unix.SchedSetAttr(0, &attr, 0) == nil
}

// readRaw and writeRaw never block, so they need not inform the runtime's scheduler of a system call.
func readRaw(fd int, b []byte) (int, unix.Errno) {
	n, _, e := unix.RawSyscall(unix.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return int(n), e
}

func writeRaw(fd int, b []byte) unix.Errno {
	_, _, e := unix.RawSyscall(unix.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(&b[0])), uintptr(len(b)))
	return e
}
