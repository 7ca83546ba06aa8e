package conffile

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"
)

var durationType = reflect.TypeFor[time.Duration]()

// parse turns a text of the environment or a flag into what the decoder wants.
func parse(t reflect.Type, text string) (any, error) {
	if t == durationType {
		return text, nil
	}
	switch t.Kind() {
	case reflect.Bool:
		v, err := strconv.ParseBool(text)
		if err != nil {
			return nil, fmt.Errorf("%q: must be true or false", text)
		}
		return v, nil
	case reflect.Int, reflect.Int64, reflect.Int32:
		v, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("%q: must be a whole number", text)
		}
		return v, nil
	case reflect.Slice:
		if t.Elem().Kind() != reflect.String {
			return nil, fmt.Errorf("can be set in the file only")
		}
		text = strings.Trim(text, "[]") // as pflag prints a list
		if text == "" {
			return []string{}, nil
		}
		return strings.Split(text, ","), nil
	case reflect.String:
		return text, nil
	default:
		return nil, fmt.Errorf("can be set in the file only")
	}
}

// durations reads "15s" and keeps `ttl: 15` from meaning 15 nanoseconds.
func durations(from, to reflect.Type, value any) (any, error) {
	if to != durationType || from == durationType {
		return value, nil
	}
	text, ok := value.(string)
	if !ok {
		return nil, fmt.Errorf("%v: must be a duration with a unit, such as 15s", value)
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return nil, fmt.Errorf("%q: must be a duration with a unit, such as 15s", text)
	}
	return d, nil
}

// textsFromNumbers lets a name that YAML reads as a number be a text.
func textsFromNumbers(from, to reflect.Type, value any) (any, error) {
	if to.Kind() == reflect.String && to == reflect.TypeFor[string]() && from.Kind() == reflect.Int {
		return fmt.Sprint(value), nil
	}
	return value, nil
}

// wholeLists makes a list replace the default as a whole: otherwise its
// elements would take what they leave out from the default at their place.
func wholeLists(from, to reflect.Value) (any, error) {
	if to.Kind() == reflect.Slice && to.CanSet() {
		to.SetZero()
	}
	return from.Interface(), nil
}
