package scope

// Kind says what sort of thing a scope names. Kinds travel and persist as
// their text.
type Kind string

// The kinds of DESIGN 3, Scope 2.
const (
	Environment    Kind = "environment"
	InfraEnv       Kind = "infra-env"
	MergeTarget    Kind = "merge-target"
	ReleaseChannel Kind = "release-channel"
	Device         Kind = "device"
	RunnerFleet    Kind = "runner-fleet"
	WorkflowGroup  Kind = "workflow-group"
	Migration      Kind = "migration"
	TestAccount    Kind = "test-account"
	SigningSlot    Kind = "signing-slot"
	Custom         Kind = "custom"
)

// Kinds lists every kind in the order in which people see them.
func Kinds() []Kind {
	return []Kind{
		Environment, InfraEnv, MergeTarget, ReleaseChannel, Device, RunnerFleet,
		WorkflowGroup, Migration, TestAccount, SigningSlot, Custom,
	}
}

// Valid reports whether k is one of Kinds.
func (k Kind) Valid() bool {
	for _, known := range Kinds() {
		if k == known {
			return true
		}
	}
	return false
}

// CaseSensitive reports whether two names of this kind that differ in case
// name two things. Git refs, paths and database names are case sensitive;
// everything that people type by hand is folded to lower case.
func (k Kind) CaseSensitive() bool {
	switch k {
	case MergeTarget, Migration, Device, Custom:
		return true
	case Environment, InfraEnv, ReleaseChannel, RunnerFleet, WorkflowGroup, TestAccount, SigningSlot:
		return false
	}
	return true
}
