package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"proxima/fetch/blocklist"
	"proxima/node/strict"
)

// setting is a key of the configuration.
type setting struct {
	key string
	// live means that the value may change while the node runs.
	live  bool
	field []int
}

// settings returns all keys that have a value.
func settings(of reflect.Type, section string, at []int) (all []setting) {
	for i := range of.NumField() {
		f := of.Field(i)
		key, field := strings.Trim(section+"."+f.Tag.Get("toml"), "."), append(slices.Clone(at), i)
		switch {
		case f.Tag.Get("toml") == "-":
		case f.Type.Kind() == reflect.Struct:
			all = append(all, settings(f.Type, key, field)...)
		default:
			all = append(all, setting{key, f.Tag.Get("live") != "", field})
		}
	}
	return all
}

// differs reports whether two configurations have different values of a key, and returns both.
func (s setting) differs(a, b *Config) (from, to any, is bool) {
	x, y := reflect.ValueOf(a).Elem().FieldByIndex(s.field), reflect.ValueOf(b).Elem().FieldByIndex(s.field)
	none := x.Kind() == reflect.Slice && x.Len()+y.Len() == 0 // nil and an empty list are the same
	return x.Interface(), y.Interface(), !none && !reflect.DeepEqual(x.Interface(), y.Interface())
}

// take copies the value of a key from another configuration.
func (s setting) take(c, from *Config) {
	reflect.ValueOf(c).Elem().FieldByIndex(s.field).Set(reflect.ValueOf(from).Elem().FieldByIndex(s.field))
}

// notLive returns the message that a key of the file has to wait.
func notLive(key string) string {
	return key + " cannot change while the node runs: it counts from the next start on"
}

// Set changes the value of a live key until the node ends or reads its file again. The value is written as in a file, where quotes may be
// left out.
func (o *Operator) Set(ctx context.Context, key, value, by string) error {
	all := settings(reflect.TypeFor[Config](), "", nil)
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	switch {
	case i < 0:
		return badInput(fmt.Errorf("%q is no key%s", key, hint(key)))
	case !all[i].live:
		return fmt.Errorf("%w: %s cannot change while the node runs: set it in the configuration file, which counts from the next start on", ErrNotNow, key)
	case strings.ContainsAny(value, "\r\n"):
		return badInput(fmt.Errorf("%s: more than one line", key))
	}
	var given Config
	var err error
	for _, text := range []string{value, strconv.Quote(value)} {
		f, wrong := strict.Parse("value", key+" = "+text)
		if wrong != nil && text == value {
			continue // a word that lacks its quotes
		}
		if given = (Config{}); wrong == nil {
			wrong = errors.Join(f.Decode(&given), f.Err())
		}
		if wrong == nil {
			err = nil
			break
		}
		err = cmp.Or(err, wrong) // about the value as it was written, if it is one
	}
	if err != nil {
		return badInput(errors.New(strings.TrimPrefix(err.Error(), "value:1: ")))
	}
	o.adjusting.Lock()
	defer o.adjusting.Unlock()
	next := *o.live.Load()
	all[i].take(&next, &given)
	err = o.adjustLocked(next, []setting{all[i]}, by)
	if err == nil && key == "blocklist.sources" {
		o.followLocked(ctx)
	}
	return err
}

// Reload reads the node's configuration again and takes over the live keys. It returns the keys that have changed, and messages about those
// that cannot change now.
func (o *Operator) Reload(ctx context.Context, by string) (changed, refused []string, err error) {
	if o.reread == nil {
		return nil, nil, fmt.Errorf("reload: %w: the node was not started from a file", ErrNotNow)
	}
	o.log(by, "reload")
	o.adjusting.Lock() // of two calls the second one reads later, so that what it reads stays
	defer o.adjusting.Unlock()
	file, err := o.reread()
	if err != nil {
		return nil, nil, badInput(fmt.Errorf("reload: %w", err))
	}
	next, now := *o.live.Load(), o.live.Load()
	var take []setting
	for _, s := range settings(reflect.TypeFor[Config](), "", nil) {
		switch _, _, differs := s.differs(now, &file); {
		case !differs:
		case s.live:
			s.take(&next, &file)
			take, changed = append(take, s), append(changed, s.key)
		default:
			o.node.warn(fmt.Errorf("reload: %s", notLive(s.key)))
			refused = append(refused, notLive(s.key))
		}
	}
	if err = o.adjustLocked(next, take, by); err == nil {
		o.followLocked(ctx)
	}
	return changed, refused, err
}

// adjustLocked puts a configuration in force that differs in some live keys.
func (o *Operator) adjustLocked(next Config, keys []setting, by string) error {
	if errs := next.Validate(); errs != nil {
		return badInput(errors.Join(errs...))
	}
	if slices.ContainsFunc(keys, func(s setting) bool { return s.key == "blocklist.sources" }) {
		if err := blocklist.Readable(next.Blocklist.Sources); err != nil {
			return badInput(err)
		}
	}
	for _, s := range keys {
		from, to, _ := s.differs(o.live.Load(), &next)
		o.log(by, public(fmt.Sprintf("set %s from %v to %v", s.key, from, to)))
	}
	o.live.Store(&next)
	o.node.frontier.Adjust(next.Frontier, next.Politeness)
	o.node.loop.Adjust(next.Crawl)
	return nil
}

// followPatience is how long a call waits for the sources of the blocklist. It is short enough for a second call, which waits for the first, to be
// answered within the minute that calls have.
const followPatience = 20 * time.Second

// followLocked reads the sources of the blocklist. Those that do not answer in time are read after it.
func (o *Operator) followLocked(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, followPatience)
	defer cancel()
	if err := o.node.blocklist.Follow(ctx, o.live.Load().Blocklist.Sources); err != nil {
		o.node.warn(err) // the blocklist keeps what it read before
	}
}
