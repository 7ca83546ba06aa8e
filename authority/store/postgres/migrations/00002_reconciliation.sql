-- +goose Up
-- What a cut of history or a contradiction leaves: only somebody who looked
-- reopens such a scope. Scopes closed by an earlier version have no evidence.
ALTER TABLE scope ADD COLUMN forgotten boolean NOT NULL DEFAULT false;
UPDATE scope SET forgotten = true WHERE state <> 'open';

ALTER TABLE lease
    ADD COLUMN unsettled boolean NOT NULL DEFAULT false,
    ADD COLUMN accounted boolean NOT NULL DEFAULT false,
    ADD COLUMN confirm   boolean NOT NULL DEFAULT false;
CREATE INDEX lease_unsettled ON lease (scope_id) WHERE unsettled;
CREATE INDEX lease_owed ON lease (node) WHERE unsettled;

-- The nonce of a planned change of the database, valid once and for ten minutes.
ALTER TABLE authority
    ADD COLUMN switchover    text NOT NULL DEFAULT '',
    ADD COLUMN switchover_at timestamptz;

-- Effects as their sidecars reported them. certainty orders the states, so
-- that a delayed report cannot bring back what is over.
CREATE TABLE effect (
    id          text        PRIMARY KEY,
    lease       text        NOT NULL,
    scope       text        NOT NULL,
    node        text        NOT NULL,
    epoch       bigint      NOT NULL,
    provider    text        NOT NULL,
    operation   text        NOT NULL,
    safety      text        NOT NULL,
    key         text        NOT NULL,
    digest      bytea       NOT NULL,
    state       text        NOT NULL,
    certainty   smallint    NOT NULL,
    reason      text        NOT NULL,
    status      integer     NOT NULL,
    started_at  timestamptz,
    settled_at  timestamptz,
    reported_at timestamptz NOT NULL,
    outcome     text        NOT NULL,
    seen        text        NOT NULL,
    observed_by text        NOT NULL,
    observed_at timestamptz
) WITH (fillfactor = 70);
CREATE INDEX effect_of_lease ON effect (lease);
CREATE INDEX effect_of_scope ON effect (scope, id);
CREATE INDEX effect_reported ON effect (reported_at);
