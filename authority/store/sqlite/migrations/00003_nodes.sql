-- +goose Up
-- What is known of nodes beside their sessions. A node without a row is
-- admitted: its certificate is enough.
CREATE TABLE node (
    name        TEXT    PRIMARY KEY,
    tenants     TEXT    NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('admitted', 'revoked', 'removed')),
    reason      TEXT    NOT NULL,
    changed_by  TEXT    NOT NULL,
    changed_at  INTEGER NOT NULL,
    admit_from  INTEGER NOT NULL, -- certificates issued earlier are refused
    issuer      TEXT    NOT NULL, -- of the certificate that it came with last
    issued_at   INTEGER NOT NULL,
    expires_at  INTEGER NOT NULL,
    seen_at     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX node_refused ON node (name) WHERE state <> 'admitted';

ALTER TABLE join_token ADD COLUMN uses INTEGER NOT NULL DEFAULT 0;
ALTER TABLE join_token ADD COLUMN made_by TEXT NOT NULL DEFAULT '';
ALTER TABLE join_token ADD COLUMN made_at INTEGER NOT NULL DEFAULT 0;
