package simulate

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"

	"golang.org/x/text/language"
	"golang.org/x/text/language/display"
)

// Delegations are the address blocks of IPv4 that registries gave to organisations of each country, by its English name.
type Delegations map[string][]netip.Prefix

// ReadDelegations reads a table of blocks by the country's code of two letters, JSON, gzip or not:
//
//	{"byCountry": {"DE": ["2.160.0.0/12", …], …}}
func ReadDelegations(path string) (d Delegations, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read delegations: %w", err)
	}
	defer f.Close()
	in := io.Reader(f)
	if strings.HasSuffix(path, ".gz") {
		if in, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("read delegations: %w", err)
		}
	}
	var table struct {
		ByCountry map[string][]netip.Prefix `json:"byCountry"`
	}
	if err := json.NewDecoder(in).Decode(&table); err != nil {
		return nil, fmt.Errorf("read delegations: %w", err)
	}
	d = Delegations{}
	for code, blocks := range table.ByCountry {
		region, err := language.ParseRegion(code)
		if err != nil || !region.IsCountry() {
			continue // EU and AP are none
		}
		name := display.English.Regions().Name(region)
		for _, b := range blocks {
			if b.Addr().Is4() && b.Bits() <= 24 {
				d[name] = append(d[name], b.Masked())
			}
		}
	}
	if len(d) == 0 {
		return nil, errors.New("read delegations: there are no blocks of 24 bits or less of any country")
	}
	return d, nil
}

// of are the blocks of a country under any of the names that lists of cities give it.
func (d Delegations) of(country string) []netip.Prefix {
	switch country {
	case "USA", "United States of America":
		country = "United States"
	case "UK":
		country = "United Kingdom"
	case "Turkey":
		if d[country] == nil {
			country = "Türkiye"
		}
	case "Czech Republic":
		country = "Czechia"
	}
	return d[country]
}
