// Package postgres is an implementation.
package postgres
