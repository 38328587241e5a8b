package archive

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"time"
)

// Collector receives packages as docs/sinks.md describes, and keeps their files in a directory. It fails requests as Fault says.
type Collector struct {
	Dir, Token string
	// Fault says how a request fails, if it does; nil: each is served.
	Fault func(*http.Request) Fault
}

// Fault is a way in which a collector fails a request. "" and "kept" are none.
type Fault string

const (
	Refused    Fault = "refused"     // it answers 500
	Redirected Fault = "redirected"  // it answers that the file belongs elsewhere
	Silent     Fault = "silent"      // it answers nothing for five minutes
	Half       Fault = "half kept"   // it keeps half of the file
	Dropped    Fault = "dropped"     // it answers with the digest that it is told, and keeps nothing
	Mute       Fault = "mute"        // it answers without a digest, and keeps nothing
	AnswerLost Fault = "answer lost" // it keeps the file, and breaks the connection
)

func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	fault := Fault("")
	if c.Fault != nil {
		fault = c.Fault(r)
	}
	file := filepath.Join(c.Dir, path.Base(r.URL.Path))
	switch {
	case c.Token != "" && r.Header.Get("Authorization") != "Bearer "+c.Token:
		w.WriteHeader(http.StatusUnauthorized)
	case fault == Refused:
		w.WriteHeader(http.StatusInternalServerError)
	case fault == Redirected:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case fault == Silent:
		time.Sleep(5 * time.Minute)
	case r.Method == http.MethodHead:
		b, err := os.ReadFile(file)
		if err != nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		w.Header().Set("Repr-Digest", digest(b))
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
	default:
		b, err := io.ReadAll(r.Body)
		if err != nil || int64(len(b)) != r.ContentLength || fault == Mute {
			return
		}
		if fault == Dropped {
			w.Header().Set("Repr-Digest", r.Header.Get("Content-Digest"))
			return
		}
		if fault == Half {
			b = b[:len(b)/2]
		}
		if err := keep(file, b); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if fault == AnswerLost {
			panic(http.ErrAbortHandler)
		}
		w.Header().Set("Repr-Digest", digest(b))
		w.WriteHeader(http.StatusCreated)
	}
}

// keep writes a file in one step.
func keep(file string, b []byte) error {
	f, err := os.CreateTemp(filepath.Dir(file), "*.part")
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	return errors.Join(err, f.Close(), os.Rename(f.Name(), file))
}

func digest(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha-256=:" + base64.StdEncoding.EncodeToString(sum[:]) + ":"
}
