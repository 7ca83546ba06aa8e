package coordinator

import (
	"fmt"
	"time"

	"github.com/forgeyard/concurrency/shared/lease"
)

// advise says in sentences how things stand and what the reader can do.
func advise(x Explanation) []string {
	switch {
	case x.Drain != nil:
		return adviseDraining(x)
	case x.Holder != nil && x.Holder.Alive:
		return adviseOwned(x)
	case x.Holder != nil:
		return adviseExpired(x)
	case x.State == string(lease.Blocked):
		return adviseBlocked(x)
	case x.State == string(lease.Quarantined):
		return []string{
			"The scope is quarantined: " + x.Reason + ".",
			"Its records contradict each other, so nobody is granted before somebody with the role concurrency.admin has looked: " + reconcileLine(x),
		}
	}
	return adviseFree(x)
}

func adviseOwned(x Explanation) []string {
	h := x.Holder
	out := []string{fmt.Sprintf("%s %q on node %s holds it since %s with epoch %d; its session is alive and runs out in %s unless it is renewed.",
		h.Holder.Kind, h.Holder.ID, h.Node, at(h.Since), h.Epoch, round(h.ExpiresIn))}
	if h.State == lease.Granted {
		out = append(out, "The grant is not claimed yet: nothing runs under it, and it goes back by itself after "+x.Policy.ClaimTimeout.String()+".")
	}
	out = append(out, sidecarSays(x)...)
	return append(out,
		"Wait: the scope is free when the holder releases it.",
		"If the holder is stuck, end it: "+forceReleaseLine(x, h.Epoch, false)+" . A live holder drains first; nobody else is granted before its gate is closed or its time is over.")
}

func sidecarSays(x Explanation) []string {
	if !x.Reached && x.Via != "" {
		return []string{"Its sidecar is connected to the replica " + x.Via + ": ask there what it is doing now."}
	}
	if !x.Reached {
		return []string{"Its sidecar is not connected to this authority or did not answer, so what it is doing now is not known here."}
	}
	out := []string{}
	for _, hold := range x.Holds {
		out = append(out, fmt.Sprintf("Its sidecar says: %s, %d calls in flight, %d effects with unknown outcome.", hold.State, hold.InFlight, hold.Unknown))
	}
	return out
}

func adviseExpired(x Explanation) []string {
	h := x.Holder
	out := []string{fmt.Sprintf("%s %q on node %s held it since %s with epoch %d, but its session has gone silent.",
		h.Holder.Kind, h.Holder.ID, h.Node, at(h.Since), h.Epoch)}
	if x.TimePause > 0 {
		out = append(out, fmt.Sprintf("The authority is in a time pause: nothing ends by time for up to %s, so that holders which could not renew have their chance.", round(x.TimePause)))
	}
	switch x.Policy.OnUncleanEnd {
	case lease.FreeAfter:
		out = append(out, fmt.Sprintf("Just acquire it: the lease counts as over %s after the expiry, and the next one gets a higher epoch.", x.Policy.LockDelay))
	case lease.ReconcileAfter, lease.CleanAfter:
		out = append(out, fmt.Sprintf("%s after the expiry the scope is blocked until somebody has looked at what the holder left (policy %s).", x.Policy.LockDelay, x.Policy.OnUncleanEnd))
	}
	return append(out, "The node may still come back and renew, as long as nobody has asked for the scope.")
}

func adviseDraining(x Explanation) []string {
	h := x.Holder
	return []string{
		fmt.Sprintf("%s %q on node %s held it with epoch %d; the lease is ending (%s by %s: %s).",
			h.Holder.Kind, h.Holder.ID, h.Node, h.Epoch, x.Drain.Reason, x.Drain.By, x.Drain.Detail),
		fmt.Sprintf("Nobody is granted before the holder's sidecar has closed its gate, or at the latest in %s.", round(x.Drain.In)),
		"Acquire it with a wait; there is nothing else to do.",
	}
}

func adviseBlocked(x Explanation) []string {
	return []string{
		"The scope is blocked for reconciliation: " + x.Reason + ".",
		"The end of a lease is no proof that its effects stopped. When its node comes back and every call was answered, the scope reopens by itself.",
		"See what was left behind: forgeyard concurrency evidence " + x.Scope.String(),
		"Claim it, look at the provider, say what you saw: " + reconcileLine(x),
		"Only if nobody can look any more: " + forceReleaseLine(x, x.Epoch, true),
	}
}

func reconcileLine(x Explanation) string {
	return fmt.Sprintf("forgeyard concurrency reconcile %s --reason \"<why>\"", x.Scope)
}

func adviseFree(x Explanation) []string {
	out := []string{fmt.Sprintf("Nobody holds it; its last epoch is %d. Acquire it with: forgeyard run --scope %s -- <command>", x.Epoch, x.Scope)}
	if len(x.Recent) > 0 {
		l := x.Recent[0]
		where := ""
		if l.Node != "" { // a person has none
			where = " on node " + l.Node
		}
		last := fmt.Sprintf("The last holder was %s %q%s: %s at %s", l.Holder.Kind, l.Holder.ID, where, l.EndReason, at(l.EndedAt))
		if l.EndDetail != "" {
			last += " (" + l.EndDetail + ")"
		}
		out = append(out, last+".")
	}
	return out
}

// forceReleaseLine is the exact command.
func forceReleaseLine(x Explanation, epoch fmt.Stringer, accept bool) string {
	line := fmt.Sprintf("forgeyard concurrency force-release %s --epoch %s --reason \"<why>\"", x.Scope, epoch)
	if accept {
		line += " --accept-unreconciled"
	}
	return line
}

func at(t time.Time) string { return t.UTC().Format(time.RFC3339) }

func round(d time.Duration) time.Duration { return d.Round(100 * time.Millisecond) }
