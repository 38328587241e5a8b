package node

import (
	"errors"
	"fmt"
	"math"
	"net/netip"

	"github.com/oschwald/geoip2-golang/v2"

	"proxima/ncoord"
)

// Geo is the section of geographic locations.
type Geo struct {
	// Database is a GeoIP2 or GeoLite2 City file. The assigner "geographic" needs it, "nearest" uses it. Empty: no address
	// has a place.
	Database string `toml:"database"`
	// Latitude of this node, in degrees. If latitude and longitude are 0, the database is asked for the address of the peer
	// protocol.
	Latitude float64 `toml:"latitude"`
	// Longitude of this node, in degrees.
	Longitude float64 `toml:"longitude"`
}

// Validate reports all invalid values.
func (g Geo) Validate() error {
	var errs []error
	if !(math.Abs(g.Latitude) <= 90) {
		errs = append(errs, fmt.Errorf("latitude: %v is not between -90 and 90", g.Latitude))
	}
	if !(math.Abs(g.Longitude) <= 180) {
		errs = append(errs, fmt.Errorf("longitude: %v is not between -180 and 180", g.Longitude))
	}
	return errors.Join(errs...)
}

// atlas knows the locations of addresses. The zero value knows none. It is safe for concurrent use.
type atlas struct{ db *geoip2.Reader }

func openAtlas(path string) (*atlas, error) {
	if path == "" {
		return &atlas{}, nil
	}
	db, err := geoip2.Open(path)
	if err != nil {
		return nil, fmt.Errorf("%w: open geo.database %s: %w", ErrConfig, path, err)
	}
	return &atlas{db: db}, nil
}

func (a *atlas) close() error {
	if a.db == nil {
		return nil
	}
	if err := a.db.Close(); err != nil {
		return fmt.Errorf("close geo.database: %w", err)
	}
	return nil
}

// locate returns the location of an address, or nil if it is unknown.
func (a *atlas) locate(addr netip.Addr) *ncoord.Location {
	if a.db == nil {
		return nil
	}
	city, err := a.db.City(addr)
	if err != nil || city.Location.Latitude == nil || city.Location.Longitude == nil {
		return nil
	}
	return &ncoord.Location{Lat: *city.Location.Latitude, Lon: *city.Location.Longitude}
}

// own returns the location of this node, from its configuration or from the address that peers dial.
func (a *atlas) own(g Geo, peer string) *ncoord.Location {
	if g.Latitude != 0 || g.Longitude != 0 {
		return &ncoord.Location{Lat: g.Latitude, Lon: g.Longitude}
	}
	if addr, err := netip.ParseAddrPort(peer); err == nil {
		return a.locate(addr.Addr())
	}
	return nil
}
