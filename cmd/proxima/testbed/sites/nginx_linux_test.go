package sites

import (
	"context"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"
)

// In a user namespace there is one user, and nginx must not look for another.
func TestNginxRunsInAUserNamespace(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is in a new user namespace who it was outside; for others the testbed's own tests show it")
	}
	start := func(c *exec.Cmd) error {
		self := []syscall.SysProcIDMap{{Size: 1}}
		c.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWUSER, UidMappings: self, GidMappings: self}
		return c.Start()
	}
	trial := exec.Command("/bin/true")
	if err := start(trial); err != nil {
		t.Skipf("no user namespaces here: %v", err)
	}
	if err := trial.Wait(); err != nil {
		t.Fatal(err)
	}
	x := newNginx(t, freePort(t), start, docs())
	ctx, stop := context.WithCancel(t.Context())
	listens, begin := false, time.Now()
	if err := x.Run(ctx, func() { listens = true; stop() }); err != nil || !listens {
		t.Errorf("it listened: %v; %v", listens, err)
	}
	if time.Since(begin) >= nginxPatience { // told to stop before it had begun to wait for requests
		t.Error("it did not stop when it was told to")
	}
}
