package authority

import (
	"net/url"
	"reflect"
	"time"

	"go.yaml.in/yaml/v3"
)

// Render is the configuration in force as YAML, without secrets.
func (c Config) Render() ([]byte, error) {
	if u, err := url.Parse(c.Store.URL); err == nil && c.Store.URL != "" {
		c.Store.URL = u.Redacted()
	} else if c.Store.URL != "" {
		c.Store.URL = "redacted"
	}
	return yaml.Marshal(plain(reflect.ValueOf(c)))
}

// plain turns a configuration struct into ordered YAML by its `config` tags;
// durations read as they are written.
func plain(v reflect.Value) any {
	if d, ok := v.Interface().(time.Duration); ok {
		return d.String()
	}
	switch v.Kind() {
	case reflect.Struct:
		return fields(v)
	case reflect.Slice:
		out := make([]any, 0, v.Len())
		for i := range v.Len() {
			out = append(out, plain(v.Index(i)))
		}
		return out
	case reflect.Map:
		out := map[string]any{}
		for _, k := range v.MapKeys() {
			out[k.String()] = plain(v.MapIndex(k))
		}
		return out
	case reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return plain(v.Elem())
	default:
		return v.Interface()
	}
}

func fields(v reflect.Value) *yaml.Node {
	out := &yaml.Node{Kind: yaml.MappingNode}
	for i := range v.NumField() {
		name := v.Type().Field(i).Tag.Get("config")
		value := plain(v.Field(i))
		if name == "" || value == nil {
			continue
		}
		var key, node yaml.Node
		key.SetString(name)
		if err := node.Encode(value); err != nil {
			node.SetString(err.Error())
		}
		out.Content = append(out.Content, &key, &node)
	}
	return out
}
