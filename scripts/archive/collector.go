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

// Collector receives packages as docs/sinks.md describes, and keeps their files in a directory. It fails as it is told to.
type Collector struct {
	Dir, Token string
	// Deed says what becomes of a request; nil: each is served.
	Deed func(*http.Request) Deed
}

// Deed is what a collector does with a request.
type Deed string

// Deeds beside "" and "kept", which serve the request.
const (
	Refused    Deed = "refused"     // it answers 500
	Redirected Deed = "redirected"  // it answers that the file belongs elsewhere
	Silent     Deed = "silent"      // it answers nothing for five minutes
	Half       Deed = "half kept"   // it keeps half of the file
	Dropped    Deed = "dropped"     // it answers with the digest that it is told, and keeps nothing
	Mute       Deed = "mute"        // it answers without a digest, and keeps nothing
	AnswerLost Deed = "answer lost" // it keeps the file, and breaks the connection
)

func (c *Collector) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	deed := Deed("")
	if c.Deed != nil {
		deed = c.Deed(r)
	}
	file := filepath.Join(c.Dir, path.Base(r.URL.Path))
	switch {
	case c.Token != "" && r.Header.Get("Authorization") != "Bearer "+c.Token:
		w.WriteHeader(http.StatusUnauthorized)
	case deed == Refused:
		w.WriteHeader(http.StatusInternalServerError)
	case deed == Redirected:
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	case deed == Silent:
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
		if err != nil || int64(len(b)) != r.ContentLength || deed == Mute {
			return
		}
		if deed == Dropped {
			w.Header().Set("Repr-Digest", r.Header.Get("Content-Digest"))
			return
		}
		if deed == Half {
			b = b[:len(b)/2]
		}
		if err := keep(file, b); err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		if deed == AnswerLost {
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
