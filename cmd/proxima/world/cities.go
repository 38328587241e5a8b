package world

import "proxima/ncoord"

// City is a place with a name.
type City struct {
	Name, Country string
	// At is its location; nil if unknown, as in a matrix without names.
	At *ncoord.Location
}

// Cities returns 64 real cities on all continents, most of them in regions with many servers. The caller may change the slice.
func Cities() []City {
	type row struct {
		name, country string
		lat, lon      float64
	}
	rows := []row{
		{"Amsterdam", "Netherlands", 52.37, 4.90},
		{"Athens", "Greece", 37.98, 23.73},
		{"Barcelona", "Spain", 41.39, 2.17},
		{"Berlin", "Germany", 52.52, 13.41},
		{"Brussels", "Belgium", 50.85, 4.35},
		{"Bucharest", "Romania", 44.43, 26.10},
		{"Copenhagen", "Denmark", 55.68, 12.57},
		{"Dublin", "Ireland", 53.35, -6.26},
		{"Frankfurt", "Germany", 50.11, 8.68},
		{"Helsinki", "Finland", 60.17, 24.94},
		{"Istanbul", "Turkey", 41.01, 28.98},
		{"Kyiv", "Ukraine", 50.45, 30.52},
		{"Lisbon", "Portugal", 38.72, -9.14},
		{"London", "United Kingdom", 51.51, -0.13},
		{"Madrid", "Spain", 40.42, -3.70},
		{"Milan", "Italy", 45.46, 9.19},
		{"Moscow", "Russia", 55.76, 37.62},
		{"Oslo", "Norway", 59.91, 10.75},
		{"Paris", "France", 48.86, 2.35},
		{"Prague", "Czechia", 50.08, 14.44},
		{"Stockholm", "Sweden", 59.33, 18.07},
		{"Vienna", "Austria", 48.21, 16.37},
		{"Warsaw", "Poland", 52.23, 21.01},
		{"Zurich", "Switzerland", 47.38, 8.54},
		{"Atlanta", "United States", 33.75, -84.39},
		{"Boston", "United States", 42.36, -71.06},
		{"Chicago", "United States", 41.88, -87.63},
		{"Dallas", "United States", 32.78, -96.80},
		{"Denver", "United States", 39.74, -104.99},
		{"Los Angeles", "United States", 34.05, -118.24},
		{"Miami", "United States", 25.76, -80.19},
		{"Montreal", "Canada", 45.50, -73.57},
		{"New York", "United States", 40.71, -74.01},
		{"San Francisco", "United States", 37.77, -122.42},
		{"Seattle", "United States", 47.61, -122.33},
		{"Toronto", "Canada", 43.65, -79.38},
		{"Vancouver", "Canada", 49.28, -123.12},
		{"Washington", "United States", 38.91, -77.04},
		{"Mexico City", "Mexico", 19.43, -99.13},
		{"Bogotá", "Colombia", 4.71, -74.07},
		{"Buenos Aires", "Argentina", -34.60, -58.38},
		{"Lima", "Peru", -12.05, -77.04},
		{"Santiago", "Chile", -33.45, -70.67},
		{"São Paulo", "Brazil", -23.55, -46.63},
		{"Cairo", "Egypt", 30.04, 31.24},
		{"Cape Town", "South Africa", -33.92, 18.42},
		{"Johannesburg", "South Africa", -26.20, 28.05},
		{"Lagos", "Nigeria", 6.52, 3.38},
		{"Nairobi", "Kenya", -1.29, 36.82},
		{"Bangalore", "India", 12.97, 77.59},
		{"Bangkok", "Thailand", 13.76, 100.50},
		{"Dubai", "United Arab Emirates", 25.20, 55.27},
		{"Hong Kong", "China", 22.32, 114.17},
		{"Jakarta", "Indonesia", -6.21, 106.85},
		{"Manila", "Philippines", 14.60, 120.98},
		{"Mumbai", "India", 19.08, 72.88},
		{"Seoul", "South Korea", 37.57, 126.98},
		{"Singapore", "Singapore", 1.35, 103.82},
		{"Taipei", "Taiwan", 25.03, 121.57},
		{"Tel Aviv", "Israel", 32.09, 34.78},
		{"Tokyo", "Japan", 35.68, 139.69},
		{"Auckland", "New Zealand", -36.85, 174.76},
		{"Melbourne", "Australia", -37.81, 144.96},
		{"Sydney", "Australia", -33.87, 151.21},
	}
	cities := make([]City, len(rows))
	for i, r := range rows {
		cities[i] = City{Name: r.name, Country: r.country, At: &ncoord.Location{Lat: r.lat, Lon: r.lon}}
	}
	return cities
}
