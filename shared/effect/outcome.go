package effect

import "net/http"

// Sent says how far an attempt got before it ended.
type Sent string

// The stages of an attempt.
const (
	NotSent  Sent = "not-sent" // no byte of the request was written
	Partly   Sent = "partly"   // at least one byte was written, no complete status line came back
	Answered Sent = "answered" // a status line came back
)

// Attempt is what was observed of one single send.
type Attempt struct {
	Sent   Sent
	Status int    // Answered: the provider's
	Cause  string // for people: "timeout", "connection reset", "cut"
}

// Outcome judges an attempt (source: the outcome rules for HTTP providers; RFC
// 9110 section 9.2.2). It never guesses: what was written and not answered is
// Unknown, and so is an answer that does not say whether the work was done.
func Outcome(a Attempt) (State, string) {
	switch a.Sent {
	case NotSent:
		return Failed, "not-sent: " + a.Cause
	case Partly:
		return Unknown, "no answer: " + a.Cause
	case Answered:
		return ofStatus(a.Status)
	}
	return Unknown, "no answer: " + a.Cause
}

func ofStatus(status int) (State, string) {
	switch {
	case status == http.StatusAccepted:
		return Unknown, "accepted: the provider goes on with it; inspect before anything else"
	case status >= 200 && status < 300:
		return Succeeded, ""
	case status >= 300 && status < 400:
		return Failed, "redirected: not followed"
	case status == http.StatusRequestTimeout || status == http.StatusTooManyRequests:
		return Unknown, "the provider does not say whether it acted"
	case status >= 400 && status < 500:
		return Failed, "refused by the provider"
	default:
		return Unknown, "the provider failed while it worked on the request"
	}
}
