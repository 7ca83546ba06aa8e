// Package storetest is the one conformance suite of stores: every
// implementation runs the same cases, one file per concept, and reports the
// same list.
//
// A store adds a Harness: how to open it, and how to see that a transaction
// waits for another. A difference between two stores is a defect of one.
package storetest
