package sink

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Manifest says what a package is. It is the last of its files to be written and to be sent: where it is, the package is
// whole.
type Manifest struct {
	V int `json:"v"`
	// Name is that of the package: no other has it, whatever node makes it.
	Name   string `json:"name"`
	Format string `json:"format"`
	Files  []File `json:"files"`
	// Records are the downloads in the package, Pages those of pages: robots.txt files and sitemaps are none.
	Records int `json:"records"`
	Pages   int `json:"pages"`
	// Bytes are those of all files.
	Bytes int64 `json:"bytes"`
	// First and Last are when the first and the last download began.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Node is the id of the node that downloaded it, Run the name of its crawl, Version its program.
	Node    string `json:"node"`
	Run     string `json:"run"`
	Version string `json:"version"`
}

// File is one file of a package.
type File struct {
	Name   string `json:"name"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // hex
}

const manifestVersion = 1

// parcel is a package that waits to be delivered.
type parcel struct {
	Manifest
	manifest File // of the manifest itself
	sent     int  // files that the destination has, as far as this life knows
}

// packing is a package of one format while it is made.
type packing struct {
	Manifest
	spool *spool
	at    int // of the format's part in the records
	dir   string
	count map[uint32]struct{} // records with a receipt
	files []string
}

func (p *packing) path(file string) string { return filepath.Join(p.dir, file) }

// file names a file of the package.
func (p *packing) file(suffix string) string {
	name := p.spool.Name + suffix
	p.files = append(p.files, name)
	return name
}

// each visits the parts that count.
func (p *packing) each(visit func(part []byte) error) error {
	_, err := p.spool.each(func(r *spooled) error {
		if _, ok := p.count[r.n]; !ok || len(r.parts[p.at]) == 0 {
			return nil
		}
		p.Records++
		if r.page {
			p.Pages++
		}
		if p.First.IsZero() || r.time.Before(p.First) {
			p.First = r.time
		}
		if r.time.After(p.Last) {
			p.Last = r.time
		}
		return visit(r.parts[p.at])
	})
	return err
}

// pack makes the packages of a spool and removes it. Whatever it is that interrupts it, it can be done again: no package is
// delivered while its spool is there.
func (s *Sink) pack(ctx context.Context, sp *spool) ([]*parcel, error) {
	// A download that the frontier would forget with a loss of power is made again: it must not be in a package.
	if err := s.deps.Sync(ctx); err != nil {
		return nil, err
	}
	count := map[uint32]struct{}{}
	err := s.deps.Receipts.Scan(sp.receiptKey(), func(key, _ []byte) error {
		if n, ok := recordOf(key); ok {
			count[n] = struct{}{}
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	var parcels []*parcel
	for at, format := range sp.Formats {
		p := &packing{spool: sp, at: at, dir: s.dir, count: count, Manifest: Manifest{V: manifestVersion, Name: sp.Name + "." + format,
			Format: format, Node: s.deps.Node, Run: s.deps.Run, Version: s.deps.Version}}
		made, err := s.packAs(p)
		if err != nil {
			return nil, fmt.Errorf("make package %s: %w", p.Name, err)
		}
		if made != nil {
			parcels = append(parcels, made)
		}
	}
	if err := s.disk.remove(sp.path); err != nil {
		return nil, fmt.Errorf("remove spool: %w", err)
	}
	return parcels, nil
}

// packAs makes one package; nil where the format has nothing to keep.
func (s *Sink) packAs(p *packing) (*parcel, error) {
	var err error
	switch p.Format {
	case WARC:
		err = s.packWARC(p)
	case Pages:
		err = s.packPages(p)
	default:
		err = fmt.Errorf("format %q is from another version of the program", p.Format)
	}
	if err != nil {
		return nil, err
	}
	if p.Records == 0 {
		for _, name := range p.files {
			if err := s.disk.remove(p.path(name)); err != nil {
				return nil, err
			}
		}
		return nil, nil
	}
	for _, name := range p.files {
		f, err := describe(p.path(name))
		if err != nil {
			return nil, err
		}
		p.Files = append(p.Files, f)
		p.Bytes += f.Bytes
	}
	text, err := json.MarshalIndent(p.Manifest, "", "  ")
	if err != nil {
		return nil, err
	}
	path := p.path(p.Name + suffixManifest)
	err = s.disk.store(path, func(f *os.File) error { _, err := f.Write(append(text, '\n')); return err })
	if err != nil {
		return nil, err
	}
	return readParcel(path)
}

// readParcel reads a package by its manifest.
func readParcel(path string) (*parcel, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &parcel{}
	if err := json.Unmarshal(text, &p.Manifest); err != nil || p.V != manifestVersion {
		return nil, fmt.Errorf("%s is from another version of the program, or damaged: %w", filepath.Base(path), err)
	}
	p.manifest, err = describe(path)
	return p, err
}

// size is what the package takes on the disk.
func (p *parcel) size() int64 { return p.Bytes + p.manifest.Bytes }

// describe reads a whole file.
func describe(path string) (File, error) {
	f, err := os.Open(path)
	if err != nil {
		return File{}, err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	return File{Name: filepath.Base(path), Bytes: n, SHA256: hex.EncodeToString(h.Sum(nil))}, err
}

// forget removes the receipts of a package.
func (s *Sink) forget(prefix []byte) error {
	for {
		var keys [][]byte
		err := s.deps.Receipts.Scan(prefix, func(key, _ []byte) error {
			if keys = append(keys, key); len(keys) == 1000 {
				return errEnough
			}
			return nil
		})
		if err != nil && !errors.Is(err, errEnough) {
			return fmt.Errorf("read receipts: %w", err)
		}
		if len(keys) == 0 {
			return nil
		}
		err = s.deps.Receipts.Batch(func(_ func(k, v []byte), del func(k []byte)) {
			for _, k := range keys {
				del(k)
			}
		})
		if err != nil {
			return fmt.Errorf("remove receipts: %w", err)
		}
	}
}

var errEnough = errors.New("enough")

// recover takes stock of what earlier lives left: spools to be packed, packages to be delivered, and halves of either, which
// nothing refers to.
func (s *Sink) recover() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read sink: %w", err)
	}
	keep := map[string]bool{}
	spools := map[string]bool{} // prefixes of receipts
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffixSpool) {
			continue
		}
		sp, err := openSpool(filepath.Join(s.dir, e.Name()))
		switch {
		case err != nil:
			return fmt.Errorf("read sink: %w", err)
		case sp.V == 0: // killed before it had its header
			continue
		}
		keep[e.Name()] = true
		s.closed = append(s.closed, sp)
		s.spooled += sp.size
		spools[string(sp.receiptKey())] = true
	}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), suffixManifest)
		if !ok || keep[strings.TrimSuffix(name, filepath.Ext(name))+suffixSpool] {
			continue // a package whose spool is there is made again
		}
		p, err := readParcel(filepath.Join(s.dir, e.Name()))
		if err != nil {
			return fmt.Errorf("read sink: %w", err)
		}
		keep[e.Name()] = true
		for _, f := range p.Files {
			keep[f.Name] = true
		}
		s.ready = append(s.ready, p)
		s.packed += p.size()
	}
	for _, e := range entries {
		if e.Type()&fs.ModeType == 0 && !keep[e.Name()] {
			if err := s.disk.remove(filepath.Join(s.dir, e.Name())); err != nil {
				return fmt.Errorf("clear sink: %w", err)
			}
		}
	}
	return s.forgetOthers(spools)
}

// forgetOthers removes the receipts of packages that are made.
func (s *Sink) forgetOthers(spools map[string]bool) error {
	gone := map[string]bool{}
	err := s.deps.Receipts.Scan(nil, func(key, _ []byte) error {
		if len(key) >= 8 && !spools[string(key[:8])] {
			gone[string(key[:8])] = true
		}
		return nil
	})
	for prefix := range gone {
		err = errors.Join(err, s.forget([]byte(prefix)))
	}
	return err
}
