package world_test

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"proxima/cmd/proxima/world"
	"proxima/scripts/measured"
)

func write(t *testing.T, text string, zip bool) string {
	t.Helper()
	var b bytes.Buffer
	if zip {
		z := gzip.NewWriter(&b)
		z.Write([]byte(text))
		z.Close()
	} else {
		b.WriteString(text)
	}
	name := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

const threeCities = "id,city,country,latitude,longitude\n7,Aa,X,1,2\n9,Bb,Y,3,4\n8,Cc,Z,5,6\n"

func TestReadTable(t *testing.T) {
	for _, zip := range []bool{false, true} {
		rtt := write(t, "source,destination,min_ms,avg_ms,max_ms,mdev_ms\n7,9,1,10,20,0\n9,7,1,14,20,0\n7,8,1,30,20,0\n9,8,1,5,20,0\n"+
			"7,7,0,0.1,0,0\n7,99,1,1,1,1\n9,8,0,-5,0,0\n8,9,0,NaN,0,0\n", zip)
		all, err := world.Read(write(t, threeCities, zip), rtt, 0)
		if err != nil || len(all) != 1 {
			t.Fatalf("%d matrices: %v", len(all), err)
		}
		m := all[0]
		if len(m.Cities) != 3 || m.Cities[1].Name != "Bb" || m.Cities[1].Country != "Y" || m.Cities[1].At.Lon != 4 || !m.Located() {
			t.Errorf("cities %+v", m.Cities)
		}
		if m.RTT[0][1] != 12 || m.RTT[1][0] != 12 || m.RTT[0][2] != 30 || m.RTT[2][1] != 5 || m.RTT[1][1] <= 0 {
			t.Errorf("round trips %v, want the mean of both directions", m.RTT)
		}
		if want := "round trips: 1 rows with ids of no city, 2 times that are not positive"; m.Unused != want {
			t.Errorf("%q, want %q", m.Unused, want)
		}
		if v := m.Violations(); v != 1 {
			t.Errorf("%v of the triangles violate the inequality, want the only one", v)
		}
	}
}

// TestReadWhatASpreadsheetWrites: with a byte order mark.
func TestReadWhatASpreadsheetWrites(t *testing.T) {
	const mark = "\uFEFF"
	for _, rtt := range []string{"source,destination,avg_ms\r\n7,9,12\r\n7,8,30\r\n9,8,5\r\n", "0 12 30\r\n12 0 5\r\n30 5 0\r\n"} {
		for _, zip := range []bool{false, true} {
			all, err := world.Read(write(t, mark+threeCities, zip), write(t, mark+rtt, zip), time.Millisecond)
			if err != nil || all[0].RTT[0][1] != 12 || all[0].Cities[0].Name != "Aa" {
				t.Errorf("%v, %v", all, err)
			}
		}
	}
}

func TestReadSquares(t *testing.T) {
	name := write(t, "0 0.1 0.2\n0.3 0 0.4\n0.2 0.4 0\n0\t1\t1\r\n1\t0\t1\n1\t1\t0\n", true)
	all, err := world.Read("", name, time.Second)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d matrices, want two snapshots: %v", len(all), err)
	}
	if m := all[0]; m.RTT[0][1] != 200 || m.RTT[1][2] != 400 || m.Located() || m.Unused != "" {
		t.Errorf("round trips %v, want ms", m.RTT)
	}
	if all[1].RTT[0][1] != 1000 {
		t.Errorf("round trips %v", all[1].RTT)
	}
	named, err := world.Read(write(t, threeCities, false), name, time.Millisecond)
	if err != nil || named[0].Cities[2].Name != "Cc" || !named[0].Located() {
		t.Errorf("%+v: %v", named, err)
	}
}

func TestReadFillsFewGapsAndLeavesOutWhoLacksMany(t *testing.T) {
	// Place 11 has hardly been measured, and 0 to 1 not at all; over 2 it is 3 ms.
	var text strings.Builder
	for i := range 12 {
		for j := range 12 {
			v := "9"
			switch lo, hi := min(i, j), max(i, j); {
			case i == j, hi == 11 && lo > 1, lo == 0 && hi == 1:
				v = "0"
			case lo == 0 && hi == 2:
				v = "1"
			case lo == 1 && hi == 2:
				v = "2"
			}
			text.WriteString(v + " ")
		}
		text.WriteString("\n")
	}
	all, err := world.Read("", write(t, text.String(), false), time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	m := all[0]
	if len(m.Cities) != 11 || m.Cities[10].Name != "place 10" || m.Unused != "round trips: 20 times that are not positive, 1 cities left out" {
		t.Errorf("cities %v, want all but the last; %q", m.Cities, m.Unused)
	}
	if m.RTT[0][1] != 3 || m.RTT[1][0] != 3 {
		t.Errorf("the gap is filled with %v ms, want 3", m.RTT[0][1])
	}
}

func TestReadSaysWhatIsWrong(t *testing.T) {
	none := filepath.Join(t.TempDir(), "none")
	for _, c := range []struct{ cities, rtt, want string }{
		{"", "source,destination,avg_ms\n1,2,3\n", "needs the table of its cities"},
		{threeCities, "source,destination\n1,2\n", "lacks the column"},
		{threeCities, "source,destination,avg_ms\n7,9,fast\n", `row 2: "fast"`},
		{threeCities, "source,destination,avg_ms\n1,2,3\n", "no two cities"},
		{threeCities, "0 1\n1 0\n", "3 cities for a matrix of 2"},
		{"id,city\n1,A\n", "0 1\n1 0\n", "lacks the column"},
		{"id,city,country,latitude,longitude\n" + strings.Repeat("1,A,B,1,0\n", 20_001), "source,destination,avg_ms\n", "more than 20000"},
		{"id,city,country,latitude,longitude\n1,A,B,91,0\n", "0 1\n1 0\n", "no place on Earth"},
		{"id,city,country,latitude,longitude\n1,A,B,1,0\n1,C,D,1,0\n", "0 1\n1 0\n", "there twice"},
		{"", "0 1\n1 0\n1 0\n", "no square"},
		{"", "0 1\n1\n", "line 2 has 1 numbers"},
		{"", "0 1\nx 0\n", `line 2: "x"`},
		{"", "", "first line"},
	} {
		cities := ""
		if c.cities != "" {
			cities = write(t, c.cities, false)
		}
		_, err := world.Read(cities, write(t, c.rtt, false), time.Millisecond)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want %q", c.rtt, err, c.want)
		}
	}
	if _, err := world.Read("", none, time.Millisecond); err == nil || !strings.Contains(err.Error(), "read round trips") {
		t.Errorf("a file that is not there: %v", err)
	}
	_, err := world.Read(none, write(t, "0 1\n1 0\n", false), time.Millisecond)
	if err == nil || !strings.Contains(err.Error(), "read cities") {
		t.Errorf("a file of cities that is not there: %v", err)
	}
	cut := write(t, "0 1\n1 0\n", true)
	whole, _ := os.ReadFile(cut)
	os.WriteFile(cut, whole[:len(whole)-6], 0o600)
	if _, err := world.Read("", cut, time.Millisecond); err == nil {
		t.Error("a gzip file that is cut off is read without an error")
	}
}

// Real data, where it was fetched.
func TestReadMeasured(t *testing.T) {
	for _, c := range []struct {
		cities, rtt string
		unit        time.Duration
		side, many  int
		least, most float64
	}{
		{"wondernetwork/cities.csv", "wondernetwork/rtt.csv.gz", time.Millisecond, 106, 1, 0.12, 0.18},
		{"", "planetlab/PlanetLabData_1.gz", time.Millisecond, 490, 1, 0.17, 0.18},
		{"", "seattle/first200.txt.gz", time.Second, 99, 200, 0.45, 0.52},
	} {
		cities := ""
		if c.cities != "" {
			cities = measured.File(t, c.cities)
		}
		all, err := world.Read(cities, measured.File(t, c.rtt), c.unit)
		if err != nil {
			t.Fatal(err)
		}
		if v := all[0].Violations(); len(all) != c.many || len(all[0].Cities) != c.side || v < c.least || v > c.most {
			t.Errorf("%s: %d matrices of %d, %.1f %% violations; want %d of %d, %v to %v", c.rtt, len(all), len(all[0].Cities), 100*v,
				c.many, c.side, c.least, c.most)
		}
	}
}
