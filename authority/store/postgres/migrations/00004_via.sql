-- +goose Up
-- Which replica a node came to last: written when it registers, never by its
-- heartbeats.
ALTER TABLE node ADD COLUMN via text NOT NULL DEFAULT '';
