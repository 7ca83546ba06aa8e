package cache

import (
	"time"

	"github.com/forgeyard/concurrency/shared/boottime"
	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/lease"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Session is the session that this node last had. Instants are of boot BootID.
type Session struct {
	ID          string           `json:"id"`
	Nonce       string           `json:"nonce"`
	BootID      string           `json:"boot_id"`
	TTL         time.Duration    `json:"ttl"`
	AuthorityID string           `json:"authority_id"`
	ConfirmedAt boottime.Instant `json:"confirmed_at"` // sending of the last heartbeat that was answered
}

// Binding is what a hold is bound to; exactly one field is set.
type Binding struct {
	PID       int           `json:"pid,omitempty"`
	StartTime uint64        `json:"start_time,omitempty"` // of the process, in clock ticks since boot
	Stream    bool          `json:"stream,omitempty"`
	Detach    time.Duration `json:"detach,omitempty"`
}

// Hold is one hold as it survives a restart of the sidecar.
type Hold struct {
	Key       string        `json:"key"` // secret
	Scope     scope.Scope   `json:"scope"`
	Holder    lease.Holder  `json:"holder"`
	Purpose   lease.Purpose `json:"purpose,omitempty"`
	Lease     string        `json:"lease"`
	Epoch     epoch.Epoch   `json:"epoch"`
	Confirm   bool          `json:"confirm,omitempty"`  // of its lease
	Settling  bool          `json:"settling,omitempty"` // no effect starts any more
	UID       uint32        `json:"uid"`
	Binding   Binding       `json:"binding"`
	CommandID string        `json:"command_id"`
	End       string        `json:"end,omitempty"` // why it is over, once it is; its release is still owed
	EndDetail string        `json:"end_detail,omitempty"`
}

// Receipt is the authority's word on one epoch.
type Receipt struct {
	Scope string        `json:"scope"`
	Epoch epoch.Epoch   `json:"epoch"`
	Seal  epoch.Receipt `json:"seal"`
}
