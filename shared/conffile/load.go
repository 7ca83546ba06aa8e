package conffile

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strings"

	"github.com/go-viper/mapstructure/v2"
	"github.com/knadh/koanf/parsers/yaml"
	"github.com/knadh/koanf/providers/confmap"
	"github.com/knadh/koanf/providers/rawbytes"
	"github.com/knadh/koanf/v2"
	"github.com/spf13/pflag"
)

const tag = "config"

// Sources says where values come from; later ones win. Every part is optional.
type Sources struct {
	Path      string         // of the YAML file
	EnvPrefix string         // for example FORGEYARD_AUTHORITY
	Environ   []string       // as os.Environ
	Flags     *pflag.FlagSet // flags that were set and are named like a path, with - for _
}

// Load lays the sources over target, a pointer to a struct that holds the
// defaults.
func Load(target any, src Sources) error {
	k := koanf.New(".")
	if src.Path != "" {
		text, err := os.ReadFile(src.Path)
		if err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
		if err := k.Load(rawbytes.Provider(text), yaml.Parser()); err != nil {
			return fmt.Errorf("read configuration %s: %w", src.Path, err)
		}
	}
	known := paths(reflect.TypeOf(target).Elem(), "")
	fromEnv, err := environment(known, src)
	if err != nil {
		return err
	}
	for _, layer := range []map[string]any{fromEnv, flags(known, src.Flags)} {
		if err := k.Load(confmap.Provider(layer, "."), nil); err != nil {
			return fmt.Errorf("read configuration: %w", err)
		}
	}
	return decode(target, k.Raw())
}

func decode(target any, raw map[string]any) error {
	d, err := mapstructure.NewDecoder(&mapstructure.DecoderConfig{
		Result: target, TagName: tag, ErrorUnused: true, WeaklyTypedInput: false, ZeroFields: false,
		MatchName: func(key, field string) bool { return key == field },
		DecodeHook: mapstructure.ComposeDecodeHookFunc(
			wholeLists, durations, mapstructure.TextUnmarshallerHookFunc(), textsFromNumbers,
		),
	})
	if err != nil {
		return fmt.Errorf("read configuration: %w", err)
	}
	if err := d.Decode(raw); err != nil {
		return readable(err)
	}
	return nil
}

// readable rewrites the decoder's report into one line a problem.
func readable(err error) error {
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) {
		return fmt.Errorf("configuration: %s", strings.TrimSpace(plain(err.Error())))
	}
	var out []error
	for _, e := range joined.Unwrap() {
		out = append(out, readable(e))
	}
	return errors.Join(out...)
}

func plain(text string) string {
	text = strings.ReplaceAll(text, "has invalid keys:", "unknown key:")
	return strings.ReplaceAll(text, "'' unknown key", "unknown key")
}

// environment returns the values of variables with the prefix, and refuses one
// that names no field.
func environment(known map[string]reflect.Type, src Sources) (map[string]any, error) {
	if src.EnvPrefix == "" {
		return nil, nil
	}
	byName := make(map[string]string, len(known))
	for path := range known {
		byName[src.EnvPrefix+"_"+strings.ToUpper(strings.NewReplacer(".", "_").Replace(path))] = path
	}
	values := map[string]any{}
	var errs []error
	for _, line := range src.Environ {
		name, text, _ := strings.Cut(line, "=")
		if !strings.HasPrefix(name, src.EnvPrefix+"_") {
			continue
		}
		path, ok := byName[name]
		if !ok {
			errs = append(errs, fmt.Errorf("configuration: environment variable %s: names no field", name))
			continue
		}
		value, err := parse(known[path], text)
		if err != nil {
			errs = append(errs, fmt.Errorf("configuration: environment variable %s (%s): %w", name, path, err))
			continue
		}
		values[path] = value
	}
	return values, errors.Join(errs...)
}

func flags(known map[string]reflect.Type, set *pflag.FlagSet) map[string]any {
	values := map[string]any{}
	if set == nil {
		return values
	}
	set.Visit(func(f *pflag.Flag) {
		path := strings.ReplaceAll(f.Name, "-", "_")
		t, ok := known[path]
		if !ok {
			return // a flag of the command, not of the configuration
		}
		if value, err := parse(t, f.Value.String()); err == nil {
			values[path] = value
		} else {
			values[path] = f.Value.String() // the decoder refuses it by its path
		}
	})
	return values
}

// paths lists the leaves of a configuration struct.
func paths(t reflect.Type, prefix string) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name := f.Tag.Get(tag)
		if name == "" || name == "-" {
			continue
		}
		if f.Type.Kind() == reflect.Struct {
			for p, leaf := range paths(f.Type, prefix+name+".") {
				out[p] = leaf
			}
			continue
		}
		out[prefix+name] = f.Type
	}
	return out
}

// Paths lists the paths of every field of a configuration struct, sorted.
func Paths(target any) []string {
	var out []string
	for p := range paths(reflect.TypeOf(target).Elem(), "") {
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}
