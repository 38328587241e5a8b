package sink

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Manifest describes a package. It is written and sent after the package's other files: where it is, the package is complete.
type Manifest struct {
	V int `json:"v"`
	// Name is unique among the packages of all nodes.
	Name   string `json:"name"`
	Format string `json:"format"`
	Files  []File `json:"files"`
	// Records counts the downloads in the package, Pages those that are pages and not robots.txt files or sitemaps.
	Records int `json:"records"`
	Pages   int `json:"pages"`
	// Bytes is the size of all files but the manifest.
	Bytes int64 `json:"bytes"`
	// First and Last are the times at which the first and the last download began.
	First time.Time `json:"first"`
	Last  time.Time `json:"last"`
	// Node is the id of the node that made the downloads, Run the name of its crawl, Version its program's.
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

// digest returns the SHA-256 as destinations write it.
func (f File) digest() string {
	sum, _ := hex.DecodeString(f.SHA256) // what is damaged is no digest of the file
	return base64.StdEncoding.EncodeToString(sum)
}

const manifestVersion = 1

// madePackage is a package that waits for delivery.
type madePackage struct {
	Manifest
	manifest File // the file of the manifest itself
	sent     int  // files that the destination has acknowledged to this life
}

// packing is a package of one format under construction.
type packing struct {
	Manifest
	spool *spool
	at    int // index of the format's part in a record
	dir   string
	count map[uint32]bool // records with a receipt, and whether they were found
	files []string
}

func (p *packing) path(file string) string { return filepath.Join(p.dir, file) }

// file adds a file to the package and returns its name.
func (p *packing) file(suffix string) string {
	name := p.spool.Name + suffix
	p.files = append(p.files, name)
	return name
}

// each calls visit for the parts of this format in records with a receipt.
func (p *packing) each(visit func(part []byte) error) error {
	_, err := p.spool.each(func(r *spooled) error {
		if _, counts := p.count[r.n]; !counts {
			return nil
		}
		if p.count[r.n] = true; len(r.parts[p.at]) == 0 {
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

// pack makes the packages of a spool and then removes it. It can be interrupted and repeated at any point, because no package
// is delivered while its spool exists. If only the removal fails, the packages are not made again: the spool may be gone.
func (s *Sink) pack(ctx context.Context, sp *spool) (err error) {
	if sp.made == nil {
		if sp.made, err = s.makePackages(ctx, sp); err != nil {
			return err
		}
	}
	if err := s.disk.remove(sp.path); err != nil {
		return fmt.Errorf("remove spool: %w", err)
	}
	return nil
}

// makePackages makes the packages of a spool. Without an error the result is not nil.
func (s *Sink) makePackages(ctx context.Context, sp *spool) ([]*madePackage, error) {
	// A download whose receipt a power failure would undo is made again later, so it must not be in a package.
	if err := s.deps.Sync(ctx); err != nil {
		return nil, err
	}
	count := map[uint32]bool{}
	err := s.deps.Receipts.Scan(sp.receiptKey(), func(key, _ []byte) error {
		if len(key) == receiptLength {
			count[binary.BigEndian.Uint32(key[prefixLength:])] = false
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read receipts: %w", err)
	}
	packages := []*madePackage{}
	for at, format := range sp.Formats {
		p := &packing{spool: sp, at: at, dir: s.dir, count: count, Manifest: Manifest{V: manifestVersion, Name: sp.Name + "." + format,
			Format: format, Node: s.deps.Node, Run: s.deps.Run, Version: s.deps.Version}}
		made, err := s.packAs(p)
		if err != nil {
			return nil, fmt.Errorf("make package %s: %w", p.Name, err)
		}
		if made != nil {
			packages = append(packages, made)
		}
	}
	lost := 0 // they have ended, and are not made again
	for _, found := range count {
		if !found {
			lost++
		}
	}
	if lost > 0 {
		s.mu.Lock()
		s.stats.Damaged += lost
		s.mu.Unlock()
		s.deps.Warn(fmt.Errorf("%d downloads are lost, because their records in %s are damaged", lost, filepath.Base(sp.path)))
	}
	return packages, nil
}

// packAs makes a package of one format. It returns nil if the spool has nothing for it.
func (s *Sink) packAs(p *packing) (*madePackage, error) {
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
	return readPackage(path)
}

// readPackage reads the manifest of a package.
func readPackage(path string) (*madePackage, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	p := &madePackage{}
	if err := json.Unmarshal(text, &p.Manifest); err != nil || p.V != manifestVersion {
		return nil, fmt.Errorf("%s is from another version of the program, or damaged: %w", filepath.Base(path), cmp.Or(err, fmt.Errorf("version %d", p.V)))
	}
	p.manifest, err = describe(path)
	return p, err
}

// size returns the bytes of all files, the manifest included.
func (p *madePackage) size() int64 { return p.Bytes + p.manifest.Bytes }

// describe reads a file for its size and digest.
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

// forget removes the receipts whose keys begin with a prefix, except for those of spools in keep.
func (s *Sink) forget(prefix []byte, keep map[string]bool) error {
	var keys [][]byte
	err := s.deps.Receipts.Scan(prefix, func(key, _ []byte) error {
		if len(key) == receiptLength && !keep[string(key[:prefixLength])] {
			keys = append(keys, key)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("read receipts: %w", err)
	}
	for some := range slices.Chunk(keys, 1000) {
		err := s.deps.Receipts.Batch(func(_ func(k, v []byte), del func(k []byte)) {
			for _, k := range some {
				del(k)
			}
		})
		if err != nil {
			return fmt.Errorf("remove receipts: %w", err)
		}
	}
	return nil
}

// recover finds the spools and packages that earlier lives left, and removes incomplete files and the receipts of
// packages that are made.
func (s *Sink) recover() error {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return fmt.Errorf("read sink: %w", err)
	}
	keep := map[string]bool{}
	spools := map[string]bool{} // by the prefix of their receipts
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), suffixSpool) {
			continue
		}
		sp, err := openSpool(filepath.Join(s.dir, e.Name()), s.cfg.Formats)
		switch {
		case err != nil:
			return fmt.Errorf("read sink: %w", err)
		case sp.V == 0: // it is no spool
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
			continue // it will be made again from its spool
		}
		p, err := readPackage(filepath.Join(s.dir, e.Name()))
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
	s.review() // what is full from the start must not wait for a first download
	return s.forget(nil, spools)
}
