/** In the order in which {@link API_KEYS_UPGRADE} adds them. */
export const API_KEYS_SCHEMA = `
  CREATE TABLE api_keys (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    account_id TEXT NOT NULL,
    name TEXT,
    hint TEXT NOT NULL,
    hash BLOB NOT NULL UNIQUE, -- SHA-256 of the key
    created_at INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at INTEGER,
    access TEXT NOT NULL DEFAULT 'write',
    surface TEXT NOT NULL DEFAULT 'all',
    cell_ids TEXT, -- JSON; NULL: all cells of the account
    expires_at INTEGER,
    retires_at INTEGER -- the end of its grace, once a rotation has replaced it
  ) STRICT;
  CREATE INDEX api_keys_by_account ON api_keys (account_id, number);
`

export const API_KEYS_UPGRADE = `
  ALTER TABLE api_keys ADD COLUMN access TEXT NOT NULL DEFAULT 'write';
  ALTER TABLE api_keys ADD COLUMN surface TEXT NOT NULL DEFAULT 'all';
  ALTER TABLE api_keys ADD COLUMN cell_ids TEXT;
  ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;
  ALTER TABLE api_keys ADD COLUMN retires_at INTEGER;
`
