package sink

import (
	"errors"
	"testing"
	"time"
)

func TestCutRecords(t *testing.T) {
	const formats = 2
	whole := (&spooled{n: 300, page: true, time: time.Unix(1, 2), parts: [][]byte{make([]byte, 200), make([]byte, 300)}}).append(nil)
	var r spooled
	if err := r.read(whole, formats); err != nil || len(r.parts[1]) != 300 {
		t.Errorf("%v, %d bytes", err, len(r.parts[1]))
	}
	for n := range whole {
		if err := r.read(whole[:n], formats); !errors.Is(err, errDamaged) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}
