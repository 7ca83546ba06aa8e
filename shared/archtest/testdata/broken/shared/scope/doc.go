// Package scope breaks nothing.
package scope
