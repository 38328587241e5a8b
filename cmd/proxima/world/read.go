package world

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/ncoord"
)

// maxSide limits the number of cities of a matrix.
const maxSide = 20_000

// Read reads round trips from the file rtt and cities from the file cities. Both may be gzipped. rtt is a table (CSV with a header:
// source, destination, and avg_ms or min_ms), a square matrix of numbers, or several square matrices of the same size, each of
// which becomes a Matrix. unit is the unit of square matrices (time.Millisecond or time.Second). cities (CSV with a header: id, city,
// country, latitude, longitude) is required for a table. For a square matrix it names the rows, or is "".
//
// A round trip is the mean of both directions. Cities that lack more than a tenth of their round trips are left out, the worst first.
// Other gaps are filled with the shortest way over a third city.
func Read(cities, rtt string, unit time.Duration) ([]*Matrix, error) {
	var names []City
	var index map[string]int
	if cities != "" {
		err := Open(cities, func(r io.Reader) (err error) {
			names, index, err = readCities(r)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("read cities: %w", err)
		}
	}
	var all []*Matrix
	err := Open(rtt, func(r io.Reader) error {
		text, err := io.ReadAll(r)
		if err != nil {
			return err
		}
		first, _, _ := bytes.Cut(text, []byte("\n"))
		switch table := bytes.Contains(bytes.ToLower(first), []byte("source")); {
		case !table:
			all, err = readSquares(text, names, unit)
		case names == nil:
			err = errors.New("a table of round trips needs the table of its cities")
		default:
			all, err = readTable(text, names, index)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read round trips: %w", err)
	}
	return all, nil
}

// Open calls read with the text of a file, which may be gzipped. A byte order mark, as spreadsheets write it, is no part of the text.
func Open(name string, read func(io.Reader) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	buffered := bufio.NewReader(f)
	var r io.Reader = buffered
	if magic, err := buffered.Peek(2); err == nil && magic[0] == 0x1f && magic[1] == 0x8b {
		if r, err = gzip.NewReader(buffered); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	text := bufio.NewReader(r)
	if mark, _ := text.Peek(len("\uFEFF")); string(mark) == "\uFEFF" {
		_, _ = text.Discard(len(mark))
	}
	if err := read(text); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// columns finds names in a header. It fails for the first missing name.
func columns(header []string, names ...string) ([]int, error) {
	at := make([]int, len(names))
	for i, name := range names {
		at[i] = slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(strings.TrimSpace(h), name) })
		if at[i] < 0 {
			return nil, fmt.Errorf("the header %q lacks the column %q", header, name)
		}
	}
	return at, nil
}

// sums adds up the round trips of both directions, the same in both.
type sums struct {
	total, count  [][]float64
	skipped, gaps int // rows of cities without a location; times that are 0, negative, infinite or not numbers
}

func newSums(n int) *sums { return &sums{total: square(n), count: square(n)} }

func (s *sums) add(a, b int, ms float64) {
	if a == b {
		return // the matrix has its own
	}
	if !(ms > 0) || math.IsInf(ms, 0) {
		s.gaps++
		return
	}
	s.total[a][b], s.count[a][b] = s.total[a][b]+ms, s.count[a][b]+1
	s.total[b][a], s.count[b][a] = s.total[a][b], s.count[a][b]
}

func readTable(text []byte, cities []City, index map[string]int) ([]*Matrix, error) {
	rows, err := csv.NewReader(bytes.NewReader(text)).ReadAll()
	if err != nil {
		return nil, err
	}
	at, err := columns(rows[0], "source", "destination", "avg_ms")
	if err != nil {
		if at, err = columns(rows[0], "source", "destination", "min_ms"); err != nil {
			return nil, err
		}
	}
	s := newSums(len(cities))
	for i, row := range rows[1:] {
		a, okA := index[row[at[0]]]
		b, okB := index[row[at[1]]]
		if !okA || !okB {
			s.skipped++ // a city without a location
			continue
		}
		if ms, err := strconv.ParseFloat(row[at[2]], 64); err != nil {
			return nil, fmt.Errorf("row %d: %q is not a number of ms", i+2, row[at[2]])
		} else {
			s.add(a, b, ms)
		}
	}
	m := s.matrix(cities)
	if len(m.Cities) < 2 {
		return nil, errors.New("no two cities have a round trip between them")
	}
	return []*Matrix{m}, nil
}

func readSquares(text []byte, cities []City, unit time.Duration) ([]*Matrix, error) {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	separate := func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == ';' || r == '\r' }
	side := len(strings.FieldsFunc(lines[0], separate))
	switch {
	case side < 2 || side > maxSide:
		return nil, fmt.Errorf("the first line has %d numbers, not 2 to %d", side, maxSide)
	case len(lines)%side != 0:
		return nil, fmt.Errorf("%d lines of %d numbers are no square, nor several", len(lines), side)
	case cities != nil && len(cities) != side:
		return nil, fmt.Errorf("there are %d cities for a matrix of %d", len(cities), side)
	}
	if cities == nil {
		cities = make([]City, side)
		for i := range cities {
			cities[i].Name = fmt.Sprintf("place %d", i)
		}
	}
	scale := float64(unit) / float64(time.Millisecond)
	var all []*Matrix
	for begin := 0; begin < len(lines); begin += side {
		s := newSums(side)
		for i, line := range lines[begin : begin+side] {
			words := strings.FieldsFunc(line, separate)
			if len(words) != side {
				return nil, fmt.Errorf("line %d has %d numbers, not %d", begin+i+1, len(words), side)
			}
			for j, word := range words {
				v, err := strconv.ParseFloat(word, 64)
				if err != nil {
					return nil, fmt.Errorf("line %d: %q is not a number", begin+i+1, word)
				}
				s.add(i, j, v*scale)
			}
		}
		m := s.matrix(cities)
		if len(m.Cities) < 2 {
			return nil, fmt.Errorf("matrix %d: no two places have a round trip between them", begin/side+1)
		}
		all = append(all, m)
	}
	return all, nil
}

// mostGaps is the largest share of round trips that a city may lack.
const mostGaps = 0.1

// matrix removes the city with the most gaps until no city has too many. Then it fills the other gaps with the shortest measured way over a
// third city. Cities have few gaps, so there is always one.
func (s *sums) matrix(cities []City) *Matrix {
	var keep []int
	for i := range cities {
		keep = append(keep, i)
	}
	missing := func(a, b int) bool { return a != b && s.count[a][b] == 0 }
	mean := func(a, b int) float64 { return s.total[a][b] / s.count[a][b] }
	for len(keep) > 0 {
		worst, most := 0, -1
		for _, i := range keep {
			gaps := 0
			for _, j := range keep {
				if missing(i, j) {
					gaps++
				}
			}
			if gaps > most {
				worst, most = i, gaps
			}
		}
		if float64(most) <= mostGaps*float64(len(keep)-1) {
			break
		}
		keep = slices.DeleteFunc(keep, func(i int) bool { return i == worst })
	}
	m := &Matrix{RTT: square(len(keep)), Unused: s.unused(len(cities) - len(keep))}
	for a, i := range keep {
		m.Cities = append(m.Cities, cities[i])
		for b, j := range keep {
			switch {
			case i == j:
				m.RTT[a][b] = withinMs
			case !missing(i, j):
				m.RTT[a][b] = mean(i, j)
			default:
				m.RTT[a][b] = math.Inf(1)
				for _, k := range keep {
					if k != i && k != j && !missing(i, k) && !missing(k, j) {
						m.RTT[a][b] = min(m.RTT[a][b], mean(i, k)+mean(k, j))
					}
				}
			}
		}
	}
	return m
}

// unused says what could not be used, besides so many cities.
func (s *sums) unused(cities int) string {
	var parts []string
	for _, what := range []struct {
		n    int
		name string
	}{{s.skipped, "rows with ids of no city"}, {s.gaps, "times that are not positive"}, {cities, "cities left out"}} {
		if what.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", what.n, what.name))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return "round trips: " + strings.Join(parts, ", ")
}

//go:embed cities.csv
var builtIn string

// City is a place with a name.
type City struct {
	Name, Country string
	// At is its location; nil if unknown, as in a matrix without names.
	At *ncoord.Location
}

// Cities returns 64 real cities on all continents, most of them in regions with many servers. The caller may change the slice.
func Cities() []City {
	cities, _, err := readCities(strings.NewReader(builtIn))
	if err != nil {
		panic(fmt.Sprintf("read the built-in cities: %v", err)) // a test reads them
	}
	return cities
}

func readCities(r io.Reader) ([]City, map[string]int, error) {
	rows, err := csv.NewReader(r).ReadAll()
	if err != nil {
		return nil, nil, err
	}
	if len(rows) < 2 {
		return nil, nil, errors.New("there are none")
	}
	at, err := columns(rows[0], "id", "city", "country", "latitude", "longitude")
	if err != nil {
		return nil, nil, err
	}
	if len(rows)-1 > maxSide {
		return nil, nil, fmt.Errorf("%d are more than %d", len(rows)-1, maxSide)
	}
	var cities []City
	index := map[string]int{}
	for i, row := range rows[1:] {
		lat, err1 := strconv.ParseFloat(row[at[3]], 64)
		lon, err2 := strconv.ParseFloat(row[at[4]], 64)
		where := ncoord.Location{Lat: lat, Lon: lon}
		if err := errors.Join(err1, err2); err != nil || !where.Valid() {
			return nil, nil, fmt.Errorf("row %d: %q, %q is no place on Earth", i+2, row[at[3]], row[at[4]])
		}
		if _, ok := index[row[at[0]]]; ok {
			return nil, nil, fmt.Errorf("row %d: the id %q is there twice", i+2, row[at[0]])
		}
		index[row[at[0]]] = len(cities)
		cities = append(cities, City{Name: row[at[1]], Country: row[at[2]], At: &where})
	}
	return cities, index, nil
}
