package sink

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"

	"proxima/scripts/lab"
)

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

// fetchAll writes all files into a directory.
func (s *s3Server) fetchAll(t *testing.T) (dir string) {
	dir = t.TempDir()
	for name, b := range s.files {
		must(t, os.WriteFile(filepath.Join(dir, strings.TrimPrefix(name, "some/where/")), b, 0o600))
	}
	return dir
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
	free, err := lab.Addresses("127.0.0.1", 1)
	must(t, err)
	addr := free[0]
	server := exec.Command(program, "server", "--quiet", "--address", addr, t.TempDir())
	server.Env = append(os.Environ(), "MINIO_ROOT_USER=key", "MINIO_ROOT_PASSWORD=secretsecret", "CI=true")
	var out bytes.Buffer
	server.Stdout, server.Stderr = &out, &out
	must(t, server.Start())
	t.Cleanup(func() { server.Process.Kill(); server.Wait() })
	c, err := minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4("key", "secretsecret", ""), Region: "us-east-1"})
	must(t, err)
	for deadline := time.Now().Add(time.Minute); ; {
		if err := c.MakeBucket(t.Context(), "bucket", minio.MakeBucketOptions{}); err == nil {
			return addr
		} else if time.Now().After(deadline) {
			t.Fatalf("%v\n%s", err, &out)
		}
	}
}

// fetchAll gets all objects of a bucket.
func fetchAll(t *testing.T, addr string) (dir string) {
	c, err := minio.New(addr, &minio.Options{Creds: credentials.NewStaticV4("key", "secretsecret", ""), Region: "us-east-1"})
	must(t, err)
	dir = t.TempDir()
	for o := range c.ListObjects(t.Context(), "bucket", minio.ListObjectsOptions{Prefix: "some/where/", Recursive: true}) {
		must(t, o.Err)
		must(t, c.FGetObject(t.Context(), "bucket", o.Key, filepath.Join(dir, path.Base(o.Key)), minio.GetObjectOptions{}))
	}
	return dir
}
