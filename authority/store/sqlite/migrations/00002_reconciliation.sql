-- +goose Up
-- What a cut of history or a contradiction leaves: only somebody who looked
-- reopens such a scope. Scopes closed by an earlier version have no evidence.
ALTER TABLE scope ADD COLUMN forgotten INTEGER NOT NULL DEFAULT 0;
UPDATE scope SET forgotten = 1 WHERE state <> 'open';

ALTER TABLE lease ADD COLUMN unsettled INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN accounted INTEGER NOT NULL DEFAULT 0;
ALTER TABLE lease ADD COLUMN confirm   INTEGER NOT NULL DEFAULT 0;
-- How often the process has said that it is alive; the outside memory keeps it
-- too, so that a copy of the file from within one incarnation is noticed.
ALTER TABLE authority ADD COLUMN renewals INTEGER NOT NULL DEFAULT 0;

CREATE INDEX lease_unsettled ON lease (scope_id) WHERE unsettled;
CREATE INDEX lease_owed ON lease (node) WHERE unsettled;

-- Effects as their sidecars reported them. certainty orders the states, so
-- that a delayed report cannot bring back what is over.
CREATE TABLE effect (
    id          TEXT    PRIMARY KEY,
    lease       TEXT    NOT NULL,
    scope       TEXT    NOT NULL,
    node        TEXT    NOT NULL,
    epoch       INTEGER NOT NULL,
    provider    TEXT    NOT NULL,
    operation   TEXT    NOT NULL,
    safety      TEXT    NOT NULL,
    key         TEXT    NOT NULL,
    digest      BLOB    NOT NULL,
    state       TEXT    NOT NULL,
    certainty   INTEGER NOT NULL,
    reason      TEXT    NOT NULL,
    status      INTEGER NOT NULL,
    started_at  INTEGER NOT NULL,
    settled_at  INTEGER NOT NULL,
    reported_at INTEGER NOT NULL,
    outcome     TEXT    NOT NULL,
    seen        TEXT    NOT NULL,
    observed_by TEXT    NOT NULL,
    observed_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX effect_of_lease ON effect (lease);
CREATE INDEX effect_of_scope ON effect (scope, id);
CREATE INDEX effect_reported ON effect (reported_at);
