package sink

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// store is a destination that speaks S3. It checks each upload against a checksum; put verifies the object afterwards.
type store struct {
	client         *minio.Client
	bucket, prefix string
}

func newStore(u *url.URL, transport http.RoundTripper, key, secret string) (*store, error) {
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil {
		return nil, err
	}
	region := u.Query().Get("region")
	if region == "" {
		region = "us-east-1"
	}
	c, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewStaticV4(key, secret, ""), Secure: endpoint.Scheme == "https",
		Transport: transport, Region: region, MaxRetries: 1, TrailingHeaders: true})
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", endpoint.Host, err)
	}
	return &store{client: c, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}, nil
}

// put sends a file in one request, and checks the stored object.
func (s *store) put(ctx context.Context, dir string, f File) error {
	in, err := os.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer in.Close()
	sum, err := hex.DecodeString(f.SHA256)
	if err != nil {
		return err
	}
	checksum := base64.StdEncoding.EncodeToString(sum)
	ctx, moved, end := guarded(ctx)
	defer end()
	name := path.Join(s.prefix, f.Name)
	_, err = s.client.PutObject(ctx, s.bucket, name, &watched{in, moved}, f.Bytes, minio.PutObjectOptions{
		ContentType: contentTypeOf(f.Name), DisableMultipart: true, UserMetadata: map[string]string{"x-amz-checksum-sha256": checksum}})
	if err != nil {
		return s.explain(ctx, f.Name, err)
	}
	moved()
	has, err := s.client.StatObject(ctx, s.bucket, name, minio.StatObjectOptions{Checksum: true})
	switch {
	case err != nil:
		return s.explain(ctx, f.Name, err)
	case has.Size != f.Bytes:
		return fmt.Errorf("check %s: %w: %d of %d bytes", f.Name, errUnequal, has.Size, f.Bytes)
	case has.ChecksumSHA256 != "" && has.ChecksumSHA256 != checksum:
		return fmt.Errorf("check %s: it has another digest than what was sent", f.Name)
	}
	return nil
}

// explain adds the store's own error code.
func (s *store) explain(ctx context.Context, name string, err error) error {
	if cause := context.Cause(ctx); errors.Is(cause, errStalled) {
		return cause
	}
	if r := minio.ToErrorResponse(err); r.Code != "" {
		return fmt.Errorf("%s: it answers %s (%w)", name, r.Code, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
