package main

// The exit codes of DESIGN 6.10. `forgeyard run` ends with the command's own
// below and above these; the other commands use unreachable and refused.
const (
	exitUsage       = 2
	exitWaitTimeout = 113
	exitSuperseded  = 114
	exitLost        = 115
	exitUnreachable = 116
	exitRefused     = 117
	exitBlocked     = 118
	exitNotStarted  = 127
	exitInterrupted = 130
)
