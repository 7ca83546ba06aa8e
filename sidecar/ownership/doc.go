// Package ownership is the pure state machine of a hold.
package ownership
