package cache

import (
	"encoding/json"
	"fmt"
	"time"

	"go.etcd.io/bbolt"

	"github.com/forgeyard/concurrency/shared/epoch"
	"github.com/forgeyard/concurrency/shared/scope"
)

// Cover says which journal has every effect of a lease, from its grant on. It
// outlives the hold and the session: it is what lets a node that comes back say
// what an ended lease of its own left behind.
type Cover struct {
	Lease   string      `json:"lease"`
	Scope   scope.Scope `json:"scope"`
	Epoch   epoch.Epoch `json:"epoch"`
	Journal string      `json:"journal"` // identity of the file
	At      time.Time   `json:"at"`      // of the grant, by the wall clock
}

// JournalBefore is the Journal of covers whose holds come from a version that
// did not write any: they hold for a journal that is as old.
const JournalBefore = "before-covers"

// adoptHolds makes covers for the holds of a file from such a version.
func adoptHolds(tx *bbolt.Tx) error {
	holds := tx.Bucket([]byte(bucketHolds))
	if holds == nil || tx.Bucket([]byte(bucketCovers)) != nil {
		return nil
	}
	covers, err := tx.CreateBucket([]byte(bucketCovers))
	if err != nil {
		return err
	}
	return holds.ForEach(func(id, v []byte) error {
		var h Hold
		if err := json.Unmarshal(v, &h); err != nil {
			return fmt.Errorf("read hold: %w", err)
		}
		text, err := json.Marshal(Cover{Lease: h.Lease, Scope: h.Scope, Epoch: h.Epoch, Journal: JournalBefore})
		if err != nil {
			return fmt.Errorf("store cover: %w", err)
		}
		return covers.Put(id, text)
	})
}

// PutCover stores a cover.
func (c *Cache) PutCover(cover Cover) error { return c.put(bucketCovers, cover.Lease, cover) }

// PutGrant stores a fresh hold together with its cover.
func (c *Cache) PutGrant(h Hold, cover Cover) error {
	hold, err := json.Marshal(h)
	if err != nil {
		return fmt.Errorf("store grant: %w", err)
	}
	text, err := json.Marshal(cover)
	if err != nil {
		return fmt.Errorf("store grant: %w", err)
	}
	err = c.db.Update(func(tx *bbolt.Tx) error {
		if err := tx.Bucket([]byte(bucketCovers)).Put([]byte(h.Lease), text); err != nil {
			return err
		}
		return tx.Bucket([]byte(bucketHolds)).Put([]byte(h.Lease), hold)
	})
	if err != nil {
		return fmt.Errorf("store grant: %w", err)
	}
	return nil
}

// Covers returns every cover.
func (c *Cache) Covers() ([]Cover, error) {
	var out []Cover
	err := c.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketCovers)).ForEach(func(_, v []byte) error {
			var cover Cover
			if err := json.Unmarshal(v, &cover); err != nil {
				return fmt.Errorf("read cover: %w", err)
			}
			out = append(out, cover)
			return nil
		})
	})
	return out, err
}

// DeleteCover forgets one cover: nothing of its lease is owed any more.
func (c *Cache) DeleteCover(lease string) error {
	return c.db.Update(func(tx *bbolt.Tx) error { return tx.Bucket([]byte(bucketCovers)).Delete([]byte(lease)) })
}
