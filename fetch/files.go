package fetch

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"strings"
	"syscall"
	"time"
)

// Files is a directory that a site is read from instead of HTTP. It answers as nginx does with that directory as its root, with
// index.html as index and with the types that come with nginx. It follows no links out of the directory and reads only regular
// files. It is safe for concurrent use.
type Files struct {
	root  *os.Root
	types map[string]string
}

// OpenFiles opens a directory.
func OpenFiles(dir string) (*Files, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open files of a site: %w", err)
	}
	return &Files{root: root, types: typesByExtension()}, nil
}

// fileTypes has a media type and its extensions on each line: those of conf/mime.types of nginx 1.22.
//
//go:embed filetypes.txt
var fileTypes string

// typesByExtension reads fileTypes.
func typesByExtension() map[string]string {
	types := map[string]string{}
	for line := range strings.Lines(fileTypes) {
		words := strings.Fields(line)
		for _, extension := range words[1:] {
			types[extension] = words[0]
		}
	}
	return types
}

// Close closes the directory.
func (f *Files) Close() error { return f.root.Close() }

// ProtocolFile is the Result.Protocol of what was read from Files.
const ProtocolFile = "file"

// getFile is get from a directory.
func (c *Client) getFile(ctx context.Context, req Request, start time.Time) (res Result, err error) {
	u, err := target(req.URL)
	if err != nil {
		return res, &failure{Other, err}
	}
	if req.Gate != nil {
		if err := req.Gate(); err != nil {
			return res, &failure{NoRight, err}
		}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	x := &exchange{cfg: &c.cfg, start: start, ctx: ctx, cancel: cancel}
	res.buffers = &c.buffers
	hr := (&http.Request{Method: http.MethodGet, URL: u, Host: u.Host, Header: c.headerOf(&req)}).WithContext(ctx)
	x.watch()
	c.read(ctx, &res, req, hr, req.Files.answer(req.URL, hr.Header), x, c.limit(&req))
	res.Timing = x.end()
	return res, nil
}

// answer returns the response to a request for the URL raw with the header asked.
func (f *Files) answer(raw string, asked http.Header) *http.Response {
	origin, below, query, _ := split(raw)
	names, dir, err := segments(below)
	if err != nil {
		return withoutFile(http.StatusBadRequest)
	}
	name := strings.Join(names, "/")
	if dir {
		index := strings.TrimPrefix(name+"/index.html", "/")
		if _, err := f.root.Stat(index); err != nil {
			info, missing := f.root.Stat(cmp.Or(name, "."))
			switch {
			case missing != nil || !info.IsDir():
				return withoutFile(http.StatusNotFound)
			case errors.Is(err, fs.ErrNotExist):
				return withoutFile(http.StatusForbidden) // nginx lists no directories
			}
			return withoutFile(statusFor(err))
		}
		name = index
	}
	info, err := f.root.Stat(name)
	switch {
	case err != nil:
		return withoutFile(statusFor(err))
	case info.IsDir():
		to := origin + (&url.URL{Path: "/" + name + "/"}).EscapedPath()
		if query != "" {
			to += "?" + query
		}
		r := withoutFile(http.StatusMovedPermanently)
		r.Header.Set("Location", to)
		return r
	case !info.Mode().IsRegular():
		return withoutFile(http.StatusNotFound) // opening a device or a pipe may have effects
	}
	// Do not block: what was a file a moment ago may be a pipe now.
	file, err := f.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return withoutFile(statusFor(err))
	}
	if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
		file.Close()
		return withoutFile(http.StatusNotFound)
	}
	return f.withFile(name, file, info, asked)
}

// withFile returns the response with a file, or 304 if the caller has it already.
func (f *Files) withFile(name string, file *os.File, info fs.FileInfo, asked http.Header) *http.Response {
	modified := info.ModTime().UTC().Format(http.TimeFormat)
	etag := fmt.Sprintf("%q", fmt.Sprintf("%x-%x", info.ModTime().Unix(), info.Size()))
	h := http.Header{"Last-Modified": {modified}, "Etag": {etag}}
	since, match := asked.Get("If-Modified-Since"), asked.Get("If-None-Match")
	if (since != "" || match != "") && (since == "" || since == modified) && (match == "" || strings.TrimPrefix(match, "W/") == etag) {
		file.Close()
		return &http.Response{StatusCode: http.StatusNotModified, Proto: ProtocolFile, Header: h, Body: http.NoBody}
	}
	extension := strings.ToLower(strings.TrimPrefix(path.Ext(name), "."))
	h.Set("Content-Type", cmp.Or(f.types[extension], "application/octet-stream"))
	h.Set("Content-Length", fmt.Sprint(info.Size()))
	return &http.Response{StatusCode: http.StatusOK, Proto: ProtocolFile, Header: h, Body: file, ContentLength: info.Size()}
}

// withoutFile returns a response without a file.
func withoutFile(status int) *http.Response {
	body := fmt.Sprintf("<html>\r\n<head><title>%d %s</title></head>\r\n</html>\r\n", status, http.StatusText(status))
	return &http.Response{StatusCode: status, Proto: ProtocolFile, ContentLength: int64(len(body)),
		Header: http.Header{"Content-Type": {"text/html"}}, Body: io.NopCloser(strings.NewReader(body))}
}

// statusFor returns the status for a file that cannot be opened. A link out of the directory counts as not found.
func statusFor(err error) int {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ELOOP) {
		return http.StatusForbidden
	}
	return http.StatusNotFound
}

// segments takes a path apart as nginx does: it decodes it once and drops empty segments and dots. It fails if the path leads above
// the root, or cannot name a file.
func segments(path string) (names []string, dir bool, err error) {
	text, err := url.PathUnescape(path)
	if err != nil || strings.IndexByte(text, 0) >= 0 {
		return nil, false, errors.New("path cannot be decoded")
	}
	for s := range strings.SplitSeq(text, "/") {
		switch dir = s == "" || s == "." || s == ".."; {
		case s == ".." && len(names) == 0:
			return nil, false, errors.New("path leads above the root")
		case s == "..":
			names = names[:len(names)-1]
		case !dir:
			names = append(names, s)
		}
	}
	return names, dir, nil
}
