package sink

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"proxima/scripts/archive"
)

// slow reads once in half a minute.
type slow struct{ io.Reader }

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(stall / 2)
	return s.Reader.Read(p)
}

// piped is a transport to handlers within a bubble.
func piped(t *testing.T, h http.Handler) http.RoundTripper {
	l := &pipes{conns: make(chan net.Conn), closed: make(chan struct{})}
	server := &http.Server{Handler: h}
	go server.Serve(l)
	t.Cleanup(func() { server.Close(); time.Sleep(10 * time.Minute) }) // what is silent ends
	transport := &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.conns <- far:
			return near, nil
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}, ExpectContinueTimeout: time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A collector that fails in whatever way, and then does not, has every page once in the end. While it takes nothing downloads
// are held before the bound is reached, and go on by themselves afterwards.
func TestCollectorsThatFail(t *testing.T) {
	for fault, words := range map[archive.Fault]string{
		archive.Refused:    "500 Internal Server Error",
		archive.Redirected: "307 Temporary Redirect",
		archive.Silent:     "nothing went on for 1m0s",
		archive.Mute:       "not with the digest of the file",
		archive.Dropped:    "404 Not Found",
		archive.Half:       "not with the digest of the file",
		archive.AnswerLost: "EOF",
	} {
		t.Run(string(fault), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var mended atomic.Bool
				c := &archive.Collector{Dir: t.TempDir(), Fault: func(*http.Request) archive.Fault {
					if mended.Load() {
						return ""
					}
					return fault
				}}
				m, dir := newFrontier(), t.TempDir()
				cfg, deps := testConfig("http://collector.test/prefix/"), testDeps(m, 1)
				deps.Transport = piped(t, c)
				l := mustBegin(t, disk{}, dir, cfg, deps)
				n := 0
				for ; l.reason() == "" && n < 10_000; n++ {
					l.downloaded(m, n)
					time.Sleep(10 * time.Millisecond)
				}
				st := l.Status()
				if why := l.reason(); !strings.Contains(why, "the sink is full: ") || st.Used > cfg.DiskBytes || st.Used < cfg.DiskBytes/8*7 {
					t.Errorf("held: %q, %d of %d", why, st.Used, cfg.DiskBytes)
				}
				for range 2000 { // those under way
					if l.download(m, n) != nil {
						break
					}
					n++
				}
				time.Sleep(time.Hour)
				st = l.Status()
				if why := l.reason(); !strings.Contains(why, words) || !strings.Contains(why, "the sink is full: ") || !strings.Contains(why, cfg.URL) {
					t.Errorf("held: %q, want %q", why, words)
				}
				if used := usedBy(t, dir); st.Used > cfg.DiskBytes || used > cfg.DiskBytes || st.Packages != 0 || st.Failures < 20 || st.Failures > 200 {
					t.Errorf("after an hour: %+v; %d bytes on disk", st, used)
				}
				mended.Store(true)
				time.Sleep(10 * time.Minute)
				if why := l.reason(); why != "" {
					t.Errorf("held after the collector came back: %q", why)
				}
				l.downloaded(m, n)
				l.flush()
				once(t, c.Dir, m)
				if l.events[0].Kind != Trouble {
					t.Errorf("events %+v", l.events)
				}
				over := 0
				for _, e := range l.events {
					if e.Kind == TroubleOver {
						over++
					}
				}
				if over != 1 {
					t.Errorf("trouble was over %d times", over)
				}
			})
		})
	}
}

// The waits grow from failure to failure, but begin anew after a success.
func TestWaitsBeginAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Sink{deps: testDeps(newFrontier(), 1)}
		var before time.Duration
		begun, steps := time.Now(), 0
		ctx, stop := context.WithCancel(t.Context())
		s.repeat(ctx, nil, func(context.Context) (bool, error) {
			switch steps++; steps {
			case 9:
				return true, nil
			case 10:
				before = time.Since(begun)
			case 11:
				stop()
			}
			return false, io.ErrUnexpectedEOF
		})
		if last := time.Since(begun) - before; before < 20*time.Second || last > 200*time.Millisecond {
			t.Errorf("after eight failures in %v and a success, the next one costs %v", before, last)
		}
	})
}

// A collector that is slow, but goes on, is waited for.
func TestSlowCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &archive.Collector{Dir: t.TempDir(), Token: "open sesame"}
		m, dir := newFrontier(), t.TempDir()
		cfg, deps := testConfig("http://collector.test"), testDeps(m, 1)
		cfg.Secret, cfg.SizeBytes, cfg.DiskBytes = "", 200<<10, 4<<20
		t.Setenv("PROXIMA_SINK_TOKEN", "open sesame")
		deps.Transport = piped(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Body = io.NopCloser(bufio.NewReaderSize(&slow{r.Body}, 32<<10))
			c.ServeHTTP(w, r)
		}))
		l := mustBegin(t, disk{}, dir, cfg, deps)
		noise := mathrand.NewChaCha8([32]byte{})
		for i := range 30 {
			r := testRecord(i)
			r.Exchange.Body = make([]byte, 10_000)
			noise.Read(r.Exchange.Body)
			ticket, err := l.Put(t.Context(), r)
			if err != nil {
				t.Fatal(err)
			}
			m.end(r.Page.URL, ticket.Key())
			ticket.End(true)
		}
		began := time.Now()
		l.flush()
		if took := time.Since(began); took < 5*time.Minute || l.Status().Failures != 0 {
			t.Errorf("took %v, %+v", took, l.Status())
		}
		once(t, c.Dir, m)
	})
}

func usedBy(t *testing.T, dir string) (n int64) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil { // else it was removed meanwhile
			n += info.Size()
		}
	}
	return n
}

// s3Server is enough of a store for one that is asked to put an object and to tell of it: what a real one refuses, it refuses.
type s3Server struct {
	mu    sync.Mutex
	files map[string][]byte
	fail  int // so many puts fail
}

func (s *s3Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	refuse := func(status int, code string) {
		w.WriteHeader(status)
		fmt.Fprintf(w, "<Error><Code>%s</Code></Error>", code)
	}
	bucket, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=key/"):
		refuse(http.StatusForbidden, "AccessDenied")
	case bucket != "bucket":
		refuse(http.StatusNotFound, "NoSuchBucket")
	case r.Method == http.MethodHead:
		b, ok := s.files[name]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
	case r.Method == http.MethodPut:
		b, err := s3Body(r)
		sum := sha256.Sum256(b)
		if s.fail > 0 {
			s.fail--
			refuse(http.StatusServiceUnavailable, "SlowDown")
		} else if err != nil || r.Header.Get("X-Amz-Checksum-Sha256") != base64.StdEncoding.EncodeToString(sum[:]) {
			refuse(http.StatusBadRequest, "BadDigest")
		} else {
			s.files[name] = b
		}
	default:
		refuse(http.StatusMethodNotAllowed, "MethodNotAllowed")
	}
}

// s3Body reads a body that may come in signed chunks.
func s3Body(r *http.Request) ([]byte, error) {
	if !strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return io.ReadAll(r.Body)
	}
	var out bytes.Buffer
	for in := bufio.NewReader(r.Body); ; {
		line, err := in.ReadString('\n')
		var n int64
		if _, e := fmt.Sscanf(line, "%x;", &n); err != nil || e != nil || n == 0 {
			return out.Bytes(), err
		}
		if _, err := io.CopyN(&out, in, n); err != nil {
			return nil, err
		}
		if _, err := in.Discard(2); err != nil {
			return nil, err
		}
	}
}

// minioServer starts a real MinIO with a bucket, and returns its address.
func minioServer(t *testing.T) string {
	program, err := exec.LookPath("minio")
	if err != nil {
		t.Skip("minio is not installed (go install github.com/minio/minio@latest): the store of the tests alone is tried")
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	l.Close()
	server := exec.Command(program, "server", "--quiet", "--address", addr, t.TempDir())
	server.Env = append(os.Environ(), "MINIO_ROOT_USER=key", "MINIO_ROOT_PASSWORD=secretsecret", "CI=true")
	var out bytes.Buffer
	server.Stdout, server.Stderr = &out, &out
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	c, err := minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4("key", "secretsecret", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; {
		if err := c.MakeBucket(t.Context(), "bucket", minio.MakeBucketOptions{}); err == nil {
			return addr
		} else if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, &out)
		}
	}
}

// Every destination keeps the same word: what is put is there whole, what is put again replaces it, and what cannot be put is
// an error that says why.
func TestDestinations(t *testing.T) {
	type target struct {
		url   string
		fetch func(t *testing.T) string // what it has, in a directory
	}
	keys := map[string]string{"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secretsecret", "PROXIMA_SINK_TOKEN": "token"}
	for name, begin := range map[string]func(t *testing.T) target{
		"directory": func(t *testing.T) target {
			to := filepath.Join(t.TempDir(), "a", "b")
			return target{url: "file://" + to, fetch: func(*testing.T) string { return to }}
		},
		"collector": func(t *testing.T) target {
			c := &archive.Collector{Dir: t.TempDir(), Token: "token"}
			s := httptest.NewServer(c)
			t.Cleanup(s.Close)
			return target{url: s.URL + "/some/where", fetch: func(*testing.T) string { return c.Dir }}
		},
		"store of the tests": func(t *testing.T) target {
			c := &s3Server{files: map[string][]byte{}, fail: 1}
			s := httptest.NewServer(c)
			t.Cleanup(s.Close)
			return target{url: "s3://bucket/some/where?endpoint=" + s.URL, fetch: func(t *testing.T) string {
				dir := t.TempDir()
				for name, b := range c.files {
					if err := os.WriteFile(filepath.Join(dir, strings.TrimPrefix(name, "some/where/")), b, 0o600); err != nil {
						t.Fatal(err)
					}
				}
				return dir
			}}
		},
		"MinIO": func(t *testing.T) target {
			addr := minioServer(t)
			return target{url: "s3://bucket/some/where?endpoint=http://" + addr, fetch: func(t *testing.T) string { return fetchAll(t, addr) }}
		},
	} {
		t.Run(name, func(t *testing.T) {
			to := begin(t)
			m, dir := newFrontier(), t.TempDir()
			deps := testDeps(m, 1)
			for name, key := range keys {
				t.Setenv(name, key)
			}
			cfg := testConfig(to.url)
			l := mustBegin(t, disk{}, dir, cfg, deps)
			for i := range 40 {
				l.downloaded(m, i)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if l.Flush(ctx); l.Status().Waiting > 0 {
				t.Fatalf("%+v", l.Status())
			}
			once(t, to.fetch(t), m)
			l.stop()

			d, err := newDestination(cfg, disk{}, deps)
			if err != nil {
				t.Fatal(err)
			}
			for _, text := range []string{"first", "the second", "the second"} { // the last as after a lost answer
				f := File{Name: "again.json", Bytes: int64(len(text))}
				sum := sha256.Sum256([]byte(text))
				f.SHA256 = hex.EncodeToString(sum[:])
				if err := os.WriteFile(filepath.Join(dir, f.Name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				if err := send(t.Context(), d, dir, f); err != nil {
					t.Fatal(err)
				}
				if got, err := os.ReadFile(filepath.Join(to.fetch(t), f.Name)); err != nil || string(got) != text {
					t.Errorf("%q, %v; want %q", got, err, text)
				}
				if name != "directory" { // a lie about the content is found out
					sum[0]++
					f.SHA256 = hex.EncodeToString(sum[:])
					if err := send(t.Context(), d, dir, f); err == nil {
						t.Error("a file with another digest was taken")
					}
				}
				if err := os.Remove(filepath.Join(dir, f.Name)); err != nil {
					t.Fatal(err)
				}
			}
			if strings.HasPrefix(name, "dir") {
				return
			}
			for name, key := range keys {
				t.Setenv(name, "x"+key)
			}
			if d, err = newDestination(cfg, disk{}, deps); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "a.json"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			empty := sha256.Sum256(nil)
			err = send(t.Context(), d, dir, File{Name: "a.json", SHA256: hex.EncodeToString(empty[:])})
			if err == nil || strings.Contains(err.Error(), "xsecretsecret") || strings.Contains(err.Error(), "xtoken") {
				t.Errorf("with a wrong secret: %v", err)
			}
		})
	}
}

// fetchAll gets all objects of a bucket.
func fetchAll(t *testing.T, addr string) (dir string) {
	c, err := minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4("key", "secretsecret", ""), Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	for o := range c.ListObjects(t.Context(), "bucket", minio.ListObjectsOptions{Prefix: "some/where/", Recursive: true}) {
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		if err := c.FGetObject(t.Context(), "bucket", o.Key, filepath.Join(dir, path.Base(o.Key)), minio.GetObjectOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
