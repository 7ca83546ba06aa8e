package conffile

import (
	"errors"
	"fmt"
)

// Problems gathers what is wrong with a configuration, each with its path. The
// zero value is ready.
type Problems struct {
	errs []error
}

// Addf notes a problem of one field; the text gives the value and what is
// allowed.
func (p *Problems) Addf(path, format string, args ...any) {
	p.errs = append(p.errs, fmt.Errorf(path+": "+format, args...))
}

// Add notes err, if there is one, under a path.
func (p *Problems) Add(path string, err error) {
	if err == nil {
		return
	}
	var joined interface{ Unwrap() []error }
	if errors.As(err, &joined) {
		for _, e := range joined.Unwrap() {
			p.Add(path, e)
		}
		return
	}
	p.errs = append(p.errs, fmt.Errorf("%s: %w", path, err))
}

// Err joins the problems, or is nil.
func (p *Problems) Err() error { return errors.Join(p.errs...) }
