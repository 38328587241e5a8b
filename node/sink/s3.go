package sink

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
)

// store is a destination that speaks S3. It checks each upload against a checksum; check verifies the object afterwards.
type store struct {
	client         *minio.Client
	bucket, prefix string
}

func newStore(u *url.URL, transport http.RoundTripper, key, secret string) (*store, error) {
	endpoint, err := url.Parse(u.Query().Get("endpoint"))
	if err != nil {
		return nil, err
	}
	region := cmp.Or(u.Query().Get("region"), "us-east-1")
	c, err := minio.New(endpoint.Host, &minio.Options{Creds: credentials.NewStaticV4(key, secret, ""), Secure: endpoint.Scheme == "https",
		Transport: transport, Region: region, MaxRetries: 1, TrailingHeaders: true})
	if err != nil {
		return nil, fmt.Errorf("make client of %s: %w", endpoint.Host, err)
	}
	return &store{client: c, bucket: u.Host, prefix: strings.Trim(u.Path, "/")}, nil
}

// put sends a file in one request.
func (s *store) put(ctx context.Context, f File, _ string, body io.Reader) error {
	_, err := s.client.PutObject(ctx, s.bucket, path.Join(s.prefix, f.Name), body, f.Bytes, minio.PutObjectOptions{
		ContentType: contentTypeOf(f.Name), DisableMultipart: true, UserMetadata: map[string]string{"x-amz-checksum-sha256": f.digest()}})
	return explain(f.Name, err)
}

func (s *store) check(ctx context.Context, f File) error {
	has, err := s.client.StatObject(ctx, s.bucket, path.Join(s.prefix, f.Name), minio.StatObjectOptions{Checksum: true})
	switch {
	case err != nil:
		return explain(f.Name, err)
	case has.Size != f.Bytes:
		return unequal(f, has.Size)
	case has.ChecksumSHA256 != "" && has.ChecksumSHA256 != f.digest():
		return fmt.Errorf("check %s: it has another digest than what was sent", f.Name)
	}
	return nil
}

// explain adds the store's own error code.
func explain(name string, err error) error {
	if err == nil {
		return nil
	}
	if r := minio.ToErrorResponse(err); r.Code != "" {
		return fmt.Errorf("%s: it answers %s (%w)", name, r.Code, err)
	}
	return fmt.Errorf("%s: %w", name, err)
}
