package cache

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"

	"go.etcd.io/bbolt"
)

// maxReceipts bounds what a node keeps and sends: the highest epochs are what
// counts as a witness.
const maxReceipts = 64

// PutReceipt keeps the receipt when it is the highest of its scope, in both
// files.
func (c *Cache) PutReceipt(r Receipt) error {
	var have Receipt
	found, err := c.get(bucketReceipts, r.Scope, &have)
	if err != nil {
		return err
	}
	if found && have.Epoch >= r.Epoch {
		return nil
	}
	if err := c.put(bucketReceipts, r.Scope, r); err != nil {
		return err
	}
	all, err := c.Receipts()
	if err != nil {
		return err
	}
	return c.writeReceipts(all)
}

// Receipts returns the highest ones, at most maxReceipts.
func (c *Cache) Receipts() ([]Receipt, error) {
	var out []Receipt
	err := c.db.View(func(tx *bbolt.Tx) error {
		return tx.Bucket([]byte(bucketReceipts)).ForEach(func(_, v []byte) error {
			var r Receipt
			if err := json.Unmarshal(v, &r); err != nil {
				return fmt.Errorf("read receipt: %w", err)
			}
			out = append(out, r)
			return nil
		})
	})
	sort.Slice(out, func(i, j int) bool { return out[i].Epoch > out[j].Epoch })
	return out[:min(len(out), maxReceipts)], err
}

func (c *Cache) receiptsPath() string { return filepath.Join(c.dir, "receipts.json") }

// mergeReceipts takes over what the second file knows better.
func (c *Cache) mergeReceipts() error {
	text, err := os.ReadFile(c.receiptsPath())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var all []Receipt
	if err := json.Unmarshal(text, &all); err != nil {
		return nil // it is written by rename; what stands in it is only a second copy
	}
	for _, r := range all {
		var have Receipt
		found, err := c.get(bucketReceipts, r.Scope, &have)
		if err != nil {
			return err
		}
		if !found || have.Epoch < r.Epoch {
			if err := c.put(bucketReceipts, r.Scope, r); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *Cache) writeReceipts(all []Receipt) error {
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("store receipts: %w", err)
	}
	temp, err := os.CreateTemp(c.dir, ".receipts-*")
	if err != nil {
		return fmt.Errorf("store receipts: %w", err)
	}
	defer os.Remove(temp.Name())
	_, err = temp.Write(text)
	if err := errors.Join(err, temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("store receipts: %w", err)
	}
	if err := os.Rename(temp.Name(), c.receiptsPath()); err != nil {
		return fmt.Errorf("store receipts: %w", err)
	}
	return nil
}
