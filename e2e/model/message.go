package model

import (
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
)

// Kind is what a message asks or answers.
type Kind string

// The kinds.
const (
	Register Kind = "register"
	Beat     Kind = "beat"
	Fetch    Kind = "fetch"
	Acquire  Kind = "acquire"
	Claim    Kind = "claim"
	Renew    Kind = "renew"
	Release  Kind = "release"
	Close    Kind = "close"
)

// Message is a request of one process of a node, or the answer to it.
type Message struct {
	Kind   Kind
	Answer bool
	Node   int
	Proc   int // of the process that asked; another one does not take the answer
	SentAt boottime.Instant

	// The request.
	Command     int // 0: none; a repeat of one is answered from what was stored
	Session     string
	Nonce       string
	ResumeNonce string
	Boot        int
	Lease       string
	Epoch       epoch.Epoch
	Applied     lease.SetVersion

	// The answer.
	Code      lease.Code
	Version   lease.SetVersion
	Remaining time.Duration
	Set       []Entry // of a fetch
}

// Entry is one lease of a set.
type Entry struct {
	Lease string
	Epoch epoch.Epoch
	State lease.State
}
