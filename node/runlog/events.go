package runlog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
)

const (
	// maxEventText bounds a string of an event in bytes.
	maxEventText = 64 << 10
	// maxConfigText bounds the configuration in EventStart. JSON makes it at most twice as long, which still fits into a line.
	maxConfigText = 480 << 10
)

// mark distinguishes the message from an attribute with the same key: slog passes both to ReplaceAttr.
const mark = "\x00"

// events is a slog.Handler: slog encodes a record, and eventLine writes it behind the keys of Line.
type events struct {
	json slog.Handler
	log  *log
}

func newEvents(l *log, echo slog.Handler) *slog.Logger {
	h := slog.Handler(events{slog.NewJSONHandler(eventLine{l}, &slog.HandlerOptions{ReplaceAttr: replace}), l})
	if echo != nil {
		h = slog.NewMultiHandler(h, echo)
	}
	return slog.New(h)
}

func (e events) Enabled(ctx context.Context, level slog.Level) bool {
	return e.json.Enabled(ctx, level)
}

func (e events) Handle(ctx context.Context, r slog.Record) error {
	r.Time = time.Time{} // omits it: the line has its own
	r.Message = mark + r.Message
	e.log.report(e.json.Handle(ctx, r))
	return nil
}

func (e events) WithAttrs(attrs []slog.Attr) slog.Handler {
	return events{e.json.WithAttrs(attrs), e.log}
}
func (e events) WithGroup(name string) slog.Handler { return events{e.json.WithGroup(name), e.log} }

// lineKeys are the keys that attributes must not have.
var lineKeys = []string{KeyV, KeyRun, KeyNode, KeyBoot, KeySeq, KeyTime, KeyEvent}

func replace(groups []string, a slog.Attr) slog.Attr {
	if err, ok := a.Value.Any().(error); ok {
		a.Value = slog.StringValue(err.Error())
	}
	if a.Value.Kind() == slog.KindString {
		text := a.Value.String()
		if event, ok := strings.CutPrefix(text, mark); ok && a.Key == slog.MessageKey && len(groups) == 0 {
			return slog.String(KeyEvent, clip(event, maxText))
		}
		if a.Key == KeyConfig {
			a.Value = slog.StringValue(clipConfig(text))
		} else {
			a.Value = slog.StringValue(clip(text, maxEventText))
		}
	}
	if len(groups) > 0 {
		return a
	}
	// encoding/json, and so the Reader, ignores case in keys.
	same := func(key string) bool { return strings.EqualFold(key, a.Key) }
	_, isLevel := a.Value.Any().(slog.Level)
	if slices.ContainsFunc(lineKeys, same) || same(KeyLevel) && !isLevel {
		a.Key += "_"
	}
	return a
}

// clipConfig cuts a configuration behind one of its lines, and says so in a comment: what is left can still be read.
func clipConfig(text string) string {
	if len(text) <= maxConfigText {
		return text
	}
	kept := text[:strings.LastIndexByte(text[:maxConfigText], '\n')+1]
	return fmt.Sprintf("%s# cut here: %d of %d bytes are left out\n", kept, len(text)-len(kept), len(text))
}

// eventLine writes what slog has encoded, `{"level":…,"event":…}\n`, as a line of the log. slog calls it under a lock, so it
// hands an error to report back to Handle.
type eventLine struct{ log *log }

func (w eventLine) Write(p []byte) (int, error) {
	pairs := p[1 : len(p)-len("}\n")]
	if len(w.log.meta)+len(p)+64 > MaxLine {
		text, err := encode(map[string]any{KeyLevel: "WARN", KeyEvent: EventOversized, KeyBytes: len(p), KeyText: string(p[:maxText])})
		if err != nil {
			return 0, err
		}
		pairs = text[1 : len(text)-1]
	}
	return len(p), w.log.put(pairs, nil)
}
