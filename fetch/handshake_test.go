package fetch

import (
	"bufio"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestSecondHandshake: over TLS 1.2 some servers ask for a certificate of the visitor once they know the page, in a second handshake, and go on
// without one. crypto/tls has no such server, OpenSSL has: a line R in its input begins that handshake, other lines are sent.
func TestSecondHandshake(t *testing.T) {
	openssl, err := exec.LookPath("openssl")
	if err != nil {
		t.Skip(err)
	}
	key := filepath.Join(t.TempDir(), "key")
	out, err := exec.Command(openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=a.example", "-keyout", key, "-out", key+".cert").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	server := exec.Command(openssl, "s_server", "-accept", "127.0.0.1:0", "-key", key, "-cert", key+".cert", "-tls1_2", "-naccept", "1")
	in, err := server.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	says, err := server.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	ports, over := make(chan string, 1), make(chan struct{})
	go func() {
		defer close(over)
		asked := false
		for lines := bufio.NewScanner(says); lines.Scan(); {
			line := lines.Text()
			if port, ok := strings.CutPrefix(line, "ACCEPT 127.0.0.1:"); ok {
				ports <- port
			}
			if strings.HasPrefix(line, "Host:") {
				_, _ = io.WriteString(in, "R\n")
				asked = true
			}
			if asked && line == "Read BLOCK" { // it has taken the second handshake
				_, _ = io.WriteString(in, "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nhello\n")
				asked = false
			}
		}
	}()
	select {
	case port := <-ports:
		cfg := testConfig()
		cfg.TLSVerify = false
		res := newClient(t, cfg, Deps{}).Get(t.Context(), Request{URL: "https://a.example:" + port + "/", Addr: testAddr})
		if string(res.Body) != "hello\n" {
			t.Errorf("%d %q, class %q, %v", res.Status, res.Body, res.Class, res.Err)
		}
	case <-over:
		t.Error("the server does not listen")
	}
	in.Close()
	<-over
	_ = server.Wait()
}
