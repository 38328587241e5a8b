package runlog

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
)

const (
	// maxEventText bounds a string of an event in bytes.
	maxEventText = 64 << 10
	// maxConfigText bounds the configuration in EventStart. JSON makes it at most twice as long, which still fits into a line.
	maxConfigText = 480 << 10
)

// events is a slog.Handler that writes records to the log. It knows neither groups nor attributes of a logger: nobody uses them.
type events struct {
	log   *log
	watch func(line any)
}

func newEvents(e events, echo slog.Handler) *slog.Logger {
	if echo == nil {
		return slog.New(e)
	}
	return slog.New(slog.NewMultiHandler(e, echo))
}

func (events) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }
func (e events) WithAttrs([]slog.Attr) slog.Handler             { return e }
func (e events) WithGroup(string) slog.Handler                  { return e }

// lineKeys are the keys that attributes must not have.
var lineKeys = []string{KeyV, KeyRun, KeyNode, KeyBoot, KeySeq, KeyTime, KeyEvent, KeyLevel}

// Handle writes a record as a line.
func (e events) Handle(_ context.Context, r slog.Record) error {
	var b []byte
	var failed error
	add := func(key string, value any) {
		pair, err := encode(map[string]any{key: value})
		if err != nil {
			failed = err
			return
		}
		b = append(append(b, ','), pair[1:len(pair)-1]...)
	}
	add(KeyLevel, r.Level.String())
	add(KeyEvent, clip(r.Message, maxText))
	r.Attrs(func(a slog.Attr) bool {
		// encoding/json, and so the Reader, ignores case in keys.
		if slices.ContainsFunc(lineKeys, func(key string) bool { return strings.EqualFold(key, a.Key) }) {
			a.Key += "_"
		}
		switch value := a.Value.Any().(type) {
		case error:
			add(a.Key, clip(value.Error(), maxEventText))
		case string:
			if a.Key == KeyConfig {
				value = clipConfig(value)
			} else {
				value = clip(value, maxEventText)
			}
			add(a.Key, value)
		default:
			add(a.Key, value)
		}
		return true
	})
	if len(e.log.meta)+len(b)+64 > MaxLine {
		text, size := string(b[1:maxText]), len(b)
		b = nil
		add(KeyLevel, slog.LevelWarn.String())
		add(KeyEvent, EventOversized)
		add(KeyBytes, size)
		add(KeyText, "{"+text)
	}
	e.log.report(e.log.put(b[1:], failed))
	e.watch(r)
	return nil
}

// clipConfig cuts a configuration behind one of its lines, and says so in a comment: what is left can still be read.
func clipConfig(text string) string {
	if len(text) <= maxConfigText {
		return text
	}
	kept := text[:strings.LastIndexByte(text[:maxConfigText], '\n')+1]
	return fmt.Sprintf("%s# cut here: %d of %d bytes are left out\n", kept, len(text)-len(kept), len(text))
}
