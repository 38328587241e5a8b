package node

import (
	"bytes"
	"math"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"

	"proxima/ncoord"
)

// database is a database of cities, as those of MaxMind are, that knows a few networks.
func database(t *testing.T) []byte {
	t.Helper()
	tree, err := mmdbwriter.New(mmdbwriter.Options{DatabaseType: "GeoLite2-City", RecordSize: 24, IncludeReservedNetworks: true})
	must(t, err)
	place := func(lat, lon float64) mmdbtype.Map {
		return mmdbtype.Map{"location": mmdbtype.Map{"latitude": mmdbtype.Float64(lat), "longitude": mmdbtype.Float64(lon)}}
	}
	for network, record := range map[string]mmdbtype.Map{
		"192.0.2.0/24":      place(52.52, 13.405),  // Berlin
		"198.51.100.0/25":   place(-33.87, 151.21), // Sydney
		"198.51.100.128/25": {"city": mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String("Nowhere")}}},
		"203.0.113.0/24":    {"location": mmdbtype.Map{"latitude": mmdbtype.Float64(1)}},
		"203.0.112.0/24":    place(0, 0),          // a place like any other
		"2001:db8::/32":     place(35.68, 139.69), // Tokyo
	} {
		_, ipnet, err := net.ParseCIDR(network)
		must(t, err)
		must(t, tree.Insert(ipnet, record))
	}
	var b bytes.Buffer
	if _, err := tree.WriteTo(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// atlasOf opens a database that has these bytes.
func atlasOf(t *testing.T, database []byte) (*atlas, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "city.mmdb")
	must(t, os.WriteFile(path, database, 0o600))
	return openAtlas(path)
}

func same(a, b *ncoord.Location) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Abs(a.Lat-b.Lat) < 1e-6 && math.Abs(a.Lon-b.Lon) < 1e-6
}

func TestLocate(t *testing.T) {
	a, err := atlasOf(t, database(t))
	must(t, err)
	berlin, tokyo := &ncoord.Location{Lat: 52.52, Lon: 13.405}, &ncoord.Location{Lat: 35.68, Lon: 139.69}
	for addr, want := range map[string]*ncoord.Location{
		"192.0.2.77":        berlin,
		"::ffff:192.0.2.77": berlin,
		"198.51.100.1":      {Lat: -33.87, Lon: 151.21},
		"198.51.100.200":    nil, // a city without a place
		"203.0.113.9":       nil, // half a place
		"203.0.112.9":       {},
		"2001:db8:1::1":     tokyo,
		"2001:db9::1":       nil,
		"127.0.0.1":         nil,
		"10.0.0.1":          nil,
	} {
		if got := a.locate(netip.MustParseAddr(addr)); !same(got, want) {
			t.Errorf("%s is at %v, not %v", addr, got, want)
		}
	}
	if got := a.locate(netip.Addr{}); got != nil {
		t.Errorf("no address is at %v", got)
	}
	for _, test := range []struct {
		name string
		geo  Geo
		peer string
		want *ncoord.Location
	}{
		{"configured", Geo{Latitude: 1, Longitude: 2}, "192.0.2.1:7947", &ncoord.Location{Lat: 1, Lon: 2}},
		{"on the equator", Geo{Longitude: 2}, "192.0.2.1:7947", &ncoord.Location{Lon: 2}},
		{"by its address", Geo{}, "192.0.2.1:7947", berlin},
		{"by its address of 16 bytes", Geo{}, "[2001:db8::7]:7947", tokyo},
		{"by a name", Geo{}, "node.example.org:7947", nil},
		{"without an address", Geo{}, "", nil},
	} {
		if got := a.own(test.geo, test.peer); !same(got, test.want) {
			t.Errorf("own place %s: %v, not %v", test.name, got, test.want)
		}
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
}

func TestNoAtlas(t *testing.T) {
	a, err := openAtlas("")
	must(t, err)
	if got := a.locate(netip.MustParseAddr("192.0.2.1")); got != nil {
		t.Errorf("without a database: %v", got)
	}
	if got := a.own(Geo{Latitude: 48}, "192.0.2.1:1"); !same(got, &ncoord.Location{Lat: 48}) {
		t.Errorf("own place: %v", got)
	}
	if err := a.close(); err != nil {
		t.Error(err)
	}
	whole := database(t)
	for name, content := range map[string][]byte{"text": []byte("no database"), "empty": nil, "cut": whole[:len(whole)/2]} {
		if _, err := atlasOf(t, content); err == nil || !strings.Contains(err.Error(), "geo.database") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
