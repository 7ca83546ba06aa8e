package scope

// MarshalText implements encoding.TextMarshaler with the canonical text form;
// the zero Scope is the empty text.
func (s Scope) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler as Parse does; the empty
// text is the zero Scope.
func (s *Scope) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*s = Scope{}
		return nil
	}
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*s = parsed
	return nil
}
