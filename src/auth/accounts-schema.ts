/** In the order in which {@link ACCOUNTS_UPGRADE} adds them. */
export const ACCOUNTS_SCHEMA = `
  CREATE TABLE accounts (
    id TEXT NOT NULL PRIMARY KEY,
    name TEXT,
    created_at INTEGER NOT NULL,
    suspended_at INTEGER,
    quotas TEXT -- JSON: those of its own
  ) STRICT, WITHOUT ROWID;
  CREATE INDEX accounts_by_age ON accounts (created_at, id);
`

export const ACCOUNTS_UPGRADE = `
  ALTER TABLE accounts ADD COLUMN suspended_at INTEGER;
  ALTER TABLE accounts ADD COLUMN quotas TEXT;
  CREATE INDEX accounts_by_age ON accounts (created_at, id);
`
