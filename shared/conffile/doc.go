// Package conffile reads the configuration of a daemon: defaults, then a YAML
// file, then the environment, then flags.
//
// Guarantees: a key that the program does not know is refused by its path,
// wherever it came from, so that a typo never silently becomes a default; a
// value of the wrong type is refused with path and value; everything that is
// wrong is reported at once.
//
// Fields are named by the struct tag `config`. The environment variable of the
// field a.b_c is PREFIX_A_B_C. Durations read like "1m30s"; lists of texts in
// the environment are separated by commas.
package conffile
