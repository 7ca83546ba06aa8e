-- +goose Up
CREATE TABLE authority (
    one         INTEGER PRIMARY KEY CHECK (one = 1),
    id          TEXT    NOT NULL,
    generation  INTEGER NOT NULL CHECK (generation BETWEEN 0 AND 8388607),
    incarnation INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE incarnation (
    id         TEXT    PRIMARY KEY,
    renewed_at INTEGER NOT NULL
) STRICT;

-- A scope row is never deleted: its epoch is the memory of every token issued.
CREATE TABLE scope (
    id     BLOB    PRIMARY KEY CHECK (length(id) = 32),
    name   TEXT    NOT NULL,
    epoch  INTEGER NOT NULL CHECK (epoch >= 0),
    state  TEXT    NOT NULL CHECK (state IN ('open', 'blocked-for-reconciliation', 'quarantined')),
    reason TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX scope_closed ON scope (id) WHERE state <> 'open';

CREATE TABLE session (
    id                 TEXT    PRIMARY KEY,
    node               TEXT    NOT NULL,
    tenants            TEXT    NOT NULL,
    nonce              TEXT    NOT NULL,
    boot_id            TEXT    NOT NULL,
    lock_device        INTEGER NOT NULL,
    lock_inode         INTEGER NOT NULL,
    ttl                INTEGER NOT NULL CHECK (ttl > 0),
    registered_at      INTEGER NOT NULL,
    expires_at         INTEGER NOT NULL,
    set_version        INTEGER NOT NULL CHECK (set_version >= 0),
    applied_generation INTEGER NOT NULL,
    applied_version    INTEGER NOT NULL,
    ended_at           INTEGER NOT NULL,
    ended              TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
-- No index on a renewed column. One session of a node at a time.
CREATE UNIQUE INDEX session_of_node ON session (node) WHERE ended = '';

CREATE TABLE lease (
    id               TEXT    PRIMARY KEY,
    scope_id         BLOB    NOT NULL REFERENCES scope (id),
    scope            TEXT    NOT NULL,
    slots            TEXT    NOT NULL,
    exclusive        INTEGER NOT NULL,
    holder_kind      TEXT    NOT NULL,
    holder_id        TEXT    NOT NULL,
    session          TEXT    NOT NULL,
    node             TEXT    NOT NULL,
    epoch            INTEGER NOT NULL CHECK (epoch > 0),
    purpose          TEXT    NOT NULL,
    state            TEXT    NOT NULL CHECK (state IN ('granted', 'live', 'draining', 'ended')),
    acquired_at      INTEGER NOT NULL,
    claim_by         INTEGER NOT NULL,
    max_until        INTEGER NOT NULL,
    drain_until      INTEGER NOT NULL,
    drain_generation INTEGER NOT NULL,
    drain_version    INTEGER NOT NULL,
    ended_at         INTEGER NOT NULL,
    end_reason       TEXT    NOT NULL,
    ended_by         TEXT    NOT NULL,
    end_detail       TEXT    NOT NULL,
    unknown_effects  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
-- I1 where SQL can say it, and: no epoch of a scope is ever given twice (I2).
CREATE UNIQUE INDEX lease_exclusive ON lease (scope_id) WHERE exclusive = 1 AND state <> 'ended';
CREATE UNIQUE INDEX lease_epoch ON lease (scope_id, epoch);
CREATE INDEX lease_of_scope ON lease (scope_id) WHERE state <> 'ended';
CREATE INDEX lease_of_session ON lease (session) WHERE state <> 'ended';
CREATE INDEX lease_granted ON lease (claim_by) WHERE state = 'granted';
CREATE INDEX lease_draining ON lease (drain_until) WHERE state = 'draining';
CREATE INDEX lease_limited ON lease (max_until) WHERE state = 'live' AND max_until > 0;
CREATE INDEX lease_tombstone ON lease (ended_at) WHERE state = 'ended';

CREATE TABLE command (
    principal TEXT    NOT NULL,
    id        TEXT    NOT NULL,
    digest    BLOB    NOT NULL,
    result    BLOB,
    at        INTEGER NOT NULL,
    PRIMARY KEY (principal, id)
) STRICT, WITHOUT ROWID;
CREATE INDEX command_at ON command (at);

CREATE TABLE audit (
    seq    INTEGER PRIMARY KEY,
    at     INTEGER NOT NULL,
    actor  TEXT    NOT NULL,
    action TEXT    NOT NULL,
    scope  TEXT    NOT NULL,
    lease  TEXT    NOT NULL,
    node   TEXT    NOT NULL,
    epoch  INTEGER NOT NULL,
    reason TEXT    NOT NULL
) STRICT;
CREATE INDEX audit_scope ON audit (scope, seq);
CREATE INDEX audit_at ON audit (at);

CREATE TABLE join_token (
    hash       BLOB    PRIMARY KEY,
    tenants    TEXT    NOT NULL,
    uses_left  INTEGER NOT NULL CHECK (uses_left >= 0),
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
