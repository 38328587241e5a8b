package node

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"proxima/node/strict"
)

// setting is a key of the configuration.
type setting struct {
	key string
	// live: a running node can take another value.
	live  bool
	field []int
}

// settings are all keys with a value, by their fields.
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

// differs says whether a key has another value in another configuration, and gives both.
func (s setting) differs(a, b *Config) (from, to any, is bool) {
	x, y := reflect.ValueOf(a).Elem().FieldByIndex(s.field), reflect.ValueOf(b).Elem().FieldByIndex(s.field)
	none := x.Kind() == reflect.Slice && x.Len()+y.Len() == 0 // however that is written
	return x.Interface(), y.Interface(), !none && !reflect.DeepEqual(x.Interface(), y.Interface())
}

// take gives a configuration the value that another has.
func (s setting) take(c, from *Config) {
	reflect.ValueOf(c).Elem().FieldByIndex(s.field).Set(reflect.ValueOf(from).Elem().FieldByIndex(s.field))
}

// notLive says of a key that it has to wait.
func notLive(key string) string {
	return key + " cannot change while the node runs: it counts from the next start on"
}

// Set gives a live key another value, written as in a file; quotes may be left out. It holds until the node ends or reads its file again.
func (n *Node) Set(ctx context.Context, key, value, by string) error {
	all := settings(reflect.TypeFor[Config](), "", nil)
	i := slices.IndexFunc(all, func(s setting) bool { return s.key == key })
	switch {
	case i < 0:
		return badInput(fmt.Errorf("%q is no key%s", key, hint(key)))
	case !all[i].live:
		return fmt.Errorf("%w: %s", ErrNotNow, notLive(key))
	case strings.ContainsAny(value, "\r\n"):
		return badInput(fmt.Errorf("%s: more than one line", key))
	}
	var given Config
	var err error
	for _, text := range []string{value, strconv.Quote(value)} {
		var f *strict.File
		if f, err = strict.Parse("value", key+" = "+text); err != nil {
			continue
		}
		given = Config{}
		if err = errors.Join(f.Decode(&given), f.Err()); err == nil {
			break
		}
	}
	if err != nil {
		return badInput(err)
	}
	n.adjusting.Lock()
	defer n.adjusting.Unlock()
	next := *n.live.Load()
	all[i].take(&next, &given)
	return n.adjustLocked(ctx, next, []setting{all[i]}, by)
}

// Reload reads the configuration that the node was started with again and takes what is live of it. It returns what has changed, and what
// cannot change now.
func (n *Node) Reload(ctx context.Context, by string) (changed, refused []string, err error) {
	if n.again == nil {
		return nil, nil, fmt.Errorf("reload: %w: the node was not started from a file", ErrNotNow)
	}
	n.acted(by, "reload")
	file, err := n.again()
	if err != nil {
		return nil, nil, badInput(fmt.Errorf("reload: %w", err))
	}
	n.adjusting.Lock()
	defer n.adjusting.Unlock()
	next, now := *n.live.Load(), n.live.Load()
	var take []setting
	for _, s := range settings(reflect.TypeFor[Config](), "", nil) {
		switch _, _, differs := s.differs(now, &file); {
		case !differs:
		case s.live:
			s.take(&next, &file)
			take, changed = append(take, s), append(changed, s.key)
		default:
			n.warn(fmt.Errorf("reload: %s", notLive(s.key)))
			refused = append(refused, notLive(s.key))
		}
	}
	return changed, refused, n.adjustLocked(ctx, next, take, by)
}

// adjustLocked puts a configuration in force, which differs in some live keys from the one that is.
func (n *Node) adjustLocked(ctx context.Context, next Config, keys []setting, by string) error {
	if errs := next.Validate(); errs != nil {
		return badInput(errors.Join(errs...))
	}
	for _, s := range keys {
		from, to, _ := s.differs(n.live.Load(), &next)
		n.acted(by, fmt.Sprintf("set %s from %v to %v", s.key, from, to))
	}
	n.live.Store(&next)
	n.frontier.Adjust(next.Frontier, next.Politeness)
	n.loop.Adjust(next.Crawl)
	if err := n.blocklist.Follow(ctx, next.Blocklist.Sources); err != nil {
		n.warn(err) // it goes on with what it read before
	}
	return nil
}
