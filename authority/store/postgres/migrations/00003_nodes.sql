-- +goose Up
-- What is known of nodes beside their sessions. A node without a row is
-- admitted: its certificate is enough.
CREATE TABLE node (
    name        text        PRIMARY KEY,
    tenants     text[]      NOT NULL,
    state       text        NOT NULL CHECK (state IN ('admitted', 'revoked', 'removed')),
    reason      text        NOT NULL,
    changed_by  text        NOT NULL,
    changed_at  timestamptz,
    admit_from  timestamptz,          -- certificates issued earlier are refused
    issuer      text        NOT NULL, -- of the certificate that it came with last
    issued_at   timestamptz,
    expires_at  timestamptz,
    seen_at     timestamptz
);
CREATE INDEX node_refused ON node (name) WHERE state <> 'admitted';

ALTER TABLE join_token
    ADD COLUMN uses    integer     NOT NULL DEFAULT 0,
    ADD COLUMN made_by text        NOT NULL DEFAULT '',
    ADD COLUMN made_at timestamptz;
