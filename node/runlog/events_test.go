package runlog

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestEvents(t *testing.T) {
	dir := t.TempDir()
	var echo bytes.Buffer
	deps := testDeps()
	deps.Echo = slog.NewTextHandler(&echo, &slog.HandlerOptions{Level: slog.LevelWarn})
	var watched []string
	deps.Watch = func(line any) { watched = append(watched, line.(slog.Record).Message) }
	log := openWith(t, testConfig(dir), meta, deps).Events()
	log.Info(EventStart, KeyConfig, "a = 1\nb = \"2\"\n\x00\xff<")
	log.Debug("not logged")
	log.Warn(EventWarning, KeyReason, errors.New("disk\nfell off"))
	log.Error(EventError, KeyHost, "a", KeyCount, 3, "list", []string{"<b>"})
	log.Info(EventStop)
	log.Info("x", KeySeq, 99, KeyEvent, "forged", KeyTime, "then", KeyLevel, "high", "msg", "m", KeyV, 5, KeyBoot, 9)

	want := []Event{
		{Line: head(1), Event: EventStart, Level: "INFO", Attrs: map[string]any{KeyConfig: "a = 1\nb = \"2\"\n\x00\ufffd<"}},
		{Line: head(2), Event: EventWarning, Level: "WARN", Attrs: map[string]any{KeyReason: "disk\nfell off"}},
		{Line: head(3), Event: EventError, Level: "ERROR", Attrs: map[string]any{KeyHost: "a", KeyCount: 3.0, "list": []any{"<b>"}}},
		{Line: head(4), Event: EventStop, Level: "INFO", Attrs: map[string]any{}},
		{Line: head(5), Event: "x", Level: "INFO", Attrs: map[string]any{"seq_": 99.0, "event_": "forged", "time_": "then",
			"level_": "high", "msg": "m", "v_": 5.0, "boot_": 9.0}},
	}
	got, skipped := read[Event](t, dir, LogNode)
	if d := cmp.Diff(want, got); d != "" || skipped != 0 {
		t.Errorf("%d skipped, %s", skipped, d)
	}
	if lines := strings.Split(strings.TrimSpace(echo.String()), "\n"); len(lines) != 2 ||
		!strings.Contains(lines[0], "msg=warning") || !strings.Contains(lines[1], "msg=error") {
		t.Errorf("echo:\n%s", &echo)
	}
	if d := cmp.Diff([]string{EventStart, EventWarning, EventError, EventStop, "x"}, watched); d != "" {
		t.Errorf("watched: %s", d)
	}
}

func TestEventsAreBounded(t *testing.T) {
	dir := t.TempDir()
	j := open(t, testConfig(dir), meta)
	long := strings.Repeat("ä", maxEventText)
	config := strings.Repeat("a = \"b\"\n", maxConfigText/8)
	j.Events().Info(EventStart, KeyConfig, config, KeyReason, long)
	j.Events().Info("many", "list", strings.Split(strings.Repeat("x", MaxLine), ""))
	j.Events().Info(EventStop)
	j.Events().Info(EventStart, KeyConfig, config+"c = \"ä\"\n")
	got, skipped := read[Event](t, dir, LogNode)
	if len(got) != 4 || skipped != 0 {
		t.Fatalf("%d events, %d skipped", len(got), skipped)
	}
	if text := got[0].Attrs[KeyReason]; text != long[:maxEventText] {
		t.Errorf("text of %d bytes", len(text.(string)))
	}
	if text := got[0].Attrs[KeyConfig]; text != config {
		t.Errorf("configuration of %d bytes", len(text.(string)))
	}
	if text := got[3].Attrs[KeyConfig]; text != config+"# cut here: 9 of "+strconv.Itoa(len(config)+9)+" bytes are left out\n" {
		t.Errorf("a longer configuration ends in %q", text.(string)[len(text.(string))-100:])
	}
	if got[1].Event != EventOversized || !strings.HasPrefix(got[1].Attrs[KeyText].(string), `{"level":"INFO","event":"many",`) {
		t.Errorf("event %+v", got[1])
	}
	if got[2].Event != EventStop || got[2].Seq != 3 {
		t.Errorf("event %+v", got[2])
	}
}

// FuzzEvents logs what the web may put into an attribute: one line of valid JSON, with the header of the run log.
func FuzzEvents(f *testing.F) {
	f.Add("host", "a\nb", "robots")
	f.Add("seq", "1", "\x00")
	f.Add("msg", "\x00forged", "start")
	f.Add("V", "0", "\u017feq")
	f.Add("level", "\"}\n{\"v\":1}", "")
	dir := f.TempDir()
	j := open(f, Config{Logs: dir, LogFileBytes: 1, LogKeep: 1}, meta) // a line a file
	seq := uint64(0)
	f.Fuzz(func(t *testing.T, key, value, event string) {
		j.Events().Info(event, key, value)
		seq++
		b, err := os.ReadFile(filepath.Join(dir, "node.jsonl"))
		must(t, err)
		if bytes.Count(b, []byte("\n")) != 1 || !json.Valid(b) {
			t.Fatalf("line %q", b)
		}
		var e Event
		if err := NewReader(bytes.NewReader(b)).Next(&e); err != nil {
			t.Fatalf("%v in %q", err, b)
		}
		if d := cmp.Diff(head(seq), e.Line); d != "" || e.Level != "INFO" {
			t.Fatalf("level %q, %s", e.Level, d)
		}
		if want := strings.ToValidUTF8(event, "\ufffd"); len(event) <= maxText && !strings.Contains(want, "\ufffd") && e.Event != want {
			t.Fatalf("event %q, want %q", e.Event, want)
		}
	})
}
