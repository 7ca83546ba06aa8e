// Package store is a contract.
package store
