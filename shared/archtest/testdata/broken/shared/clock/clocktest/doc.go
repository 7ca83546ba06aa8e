// Package clocktest is a harness.
package clocktest
