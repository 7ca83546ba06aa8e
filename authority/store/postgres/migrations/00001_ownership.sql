-- +goose Up
CREATE TABLE authority (
    one             boolean PRIMARY KEY DEFAULT true CHECK (one),
    id              text    NOT NULL,
    generation      integer NOT NULL CHECK (generation BETWEEN 0 AND 8388607),
    system_id       text    NOT NULL DEFAULT '',
    timeline        text    NOT NULL DEFAULT ''
);

CREATE TABLE incarnation (
    id         text        PRIMARY KEY,
    renewed_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- A scope row is never deleted: its epoch is the memory of every token issued.
CREATE TABLE scope (
    id     bytea   PRIMARY KEY CHECK (length(id) = 32),
    name   text    NOT NULL,
    epoch  bigint  NOT NULL CHECK (epoch >= 0),
    state  text    NOT NULL CHECK (state IN ('open', 'blocked-for-reconciliation', 'quarantined')),
    reason text    NOT NULL
) WITH (fillfactor = 50);
CREATE INDEX scope_closed ON scope (id) WHERE state <> 'open';

CREATE TABLE session (
    id                 text        PRIMARY KEY,
    node               text        NOT NULL,
    tenants            text[]      NOT NULL,
    nonce              text        NOT NULL,
    boot_id            text        NOT NULL,
    lock_device        bigint      NOT NULL,
    lock_inode         bigint      NOT NULL,
    ttl                interval    NOT NULL CHECK (ttl > interval '0'),
    registered_at      timestamptz NOT NULL,
    expires_at         timestamptz NOT NULL,
    set_version        bigint      NOT NULL CHECK (set_version >= 0),
    applied_generation integer     NOT NULL,
    applied_version    bigint      NOT NULL,
    ended_at           timestamptz,
    ended              text        NOT NULL
) WITH (fillfactor = 50);
-- No index on a renewed column. One session of a node at a time.
CREATE UNIQUE INDEX session_of_node ON session (node) WHERE ended = '';

CREATE TABLE lease (
    id               text        PRIMARY KEY,
    scope_id         bytea       NOT NULL REFERENCES scope (id),
    scope            text        NOT NULL,
    slots            integer[]   NOT NULL,
    exclusive        boolean     NOT NULL,
    holder_kind      text        NOT NULL,
    holder_id        text        NOT NULL,
    session          text        NOT NULL,
    node             text        NOT NULL,
    epoch            bigint      NOT NULL CHECK (epoch > 0),
    purpose          text        NOT NULL,
    state            text        NOT NULL CHECK (state IN ('granted', 'live', 'draining', 'ended')),
    acquired_at      timestamptz NOT NULL,
    claim_by         timestamptz NOT NULL,
    max_until        timestamptz,
    drain_until      timestamptz,
    drain_generation integer     NOT NULL,
    drain_version    bigint      NOT NULL,
    ended_at         timestamptz,
    end_reason       text        NOT NULL,
    ended_by         text        NOT NULL,
    end_detail       text        NOT NULL,
    unknown_effects  integer     NOT NULL
) WITH (fillfactor = 70);
-- I1 where SQL can say it, and: no epoch of a scope is ever given twice (I2).
CREATE UNIQUE INDEX lease_exclusive ON lease (scope_id) WHERE exclusive AND state <> 'ended';
CREATE UNIQUE INDEX lease_epoch ON lease (scope_id, epoch);
CREATE INDEX lease_of_scope ON lease (scope_id) WHERE state <> 'ended';
CREATE INDEX lease_of_session ON lease (session) WHERE state <> 'ended';
CREATE INDEX lease_granted ON lease (claim_by) WHERE state = 'granted';
CREATE INDEX lease_draining ON lease (drain_until) WHERE state = 'draining';
CREATE INDEX lease_limited ON lease (max_until) WHERE state = 'live' AND max_until IS NOT NULL;
CREATE INDEX lease_tombstone ON lease (ended_at) WHERE state = 'ended';

CREATE TABLE command (
    principal text        NOT NULL,
    id        text        NOT NULL,
    digest    bytea       NOT NULL,
    result    bytea,
    at        timestamptz NOT NULL,
    PRIMARY KEY (principal, id)
) WITH (fillfactor = 70);
CREATE INDEX command_at ON command (at);

CREATE TABLE audit (
    seq    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- an order for readers, never a token
    at     timestamptz NOT NULL,
    actor  text        NOT NULL,
    action text        NOT NULL,
    scope  text        NOT NULL,
    lease  text        NOT NULL,
    node   text        NOT NULL,
    epoch  bigint      NOT NULL,
    reason text        NOT NULL
);
CREATE INDEX audit_scope ON audit (scope, seq);
CREATE INDEX audit_at ON audit (at);

CREATE TABLE join_token (
    hash       bytea       PRIMARY KEY,
    tenants    text[]      NOT NULL,
    uses_left  integer     NOT NULL CHECK (uses_left >= 0),
    expires_at timestamptz NOT NULL
);
