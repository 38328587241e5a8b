package journal

import (
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"time"
)

// maxEventText (bytes) bounds a string of an event; the configuration in EventStart is the longest.
const maxEventText = 64 << 10

// mark tells the message apart from an attribute of the same key: slog gives both to ReplaceAttr.
const mark = "\x00"

// events is a slog.Handler: slog encodes the record, eventLine puts the keys of Line before it.
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
	r.Time = time.Time{} // left out: the line has its own
	r.Message = mark + r.Message
	e.log.report(e.json.Handle(ctx, r))
	return nil
}

func (e events) WithAttrs(attrs []slog.Attr) slog.Handler {
	return events{e.json.WithAttrs(attrs), e.log}
}
func (e events) WithGroup(name string) slog.Handler { return events{e.json.WithGroup(name), e.log} }

// lineKeys are the keys that no attribute may have.
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
		a.Value = slog.StringValue(clip(text, maxEventText))
	}
	if len(groups) > 0 {
		return a
	}
	// encoding/json, and so our Reader, takes keys that differ in case for the same.
	same := func(key string) bool { return strings.EqualFold(key, a.Key) }
	_, isLevel := a.Value.Any().(slog.Level)
	if slices.ContainsFunc(lineKeys, same) || same(KeyLevel) && !isLevel {
		a.Key += "_"
	}
	return a
}

// eventLine writes what slog has encoded, `{"level":…,"event":…}\n`, as a line of the log. slog calls it under a lock of
// its own, so the report goes back to Handle.
type eventLine struct{ log *log }

func (w eventLine) Write(p []byte) (int, error) {
	b := w.log.begin()
	if len(b)-w.log.from+len(p) > MaxLine {
		b = append(b, `,"`+KeyLevel+`":"WARN","`+KeyEvent+`":"`+EventOversized+`","`+KeyBytes+`":`...)
		b = appendString(append(strconv.AppendInt(b, int64(len(p)), 10), `,"`+KeyText+`":`...), string(p[:maxText]))
	} else {
		b = append(append(b, ','), p[1:len(p)-len("}\n")]...)
	}
	return len(p), w.log.put(b, nil)
}
