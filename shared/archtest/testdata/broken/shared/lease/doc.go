// Package lease is pure, it says.
package lease
