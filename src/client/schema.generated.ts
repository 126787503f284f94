// Made by `npm run openapi`.

export interface paths {
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The process serves */
        get: operations["healthz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The catalog is open */
        get: operations["readyz"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** This document */
        get: operations["openapi"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How the node is, for a key with the access owner */
        get: operations["nodeStatus"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/api-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the active API keys of the account, newest first */
        get: operations["listApiKeys"];
        put?: never;
        /** Make an API key of the account */
        post: operations["createApiKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/api-keys/{key_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Revoke an API key */
        delete: operations["revokeApiKey"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/api-keys/{key_id}/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make a key of the same scope in place of another one, which expires */
        post: operations["rotateApiKey"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the accounts, oldest first */
        get: operations["listAccounts"];
        put?: never;
        /** Make an account */
        post: operations["createAccount"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts/{account_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Describe an account */
        get: operations["getAccount"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts/{account_id}/suspend": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Refuse every request with the keys of an account */
        post: operations["suspendAccount"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts/{account_id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** End the suspension of an account */
        post: operations["resumeAccount"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts/{account_id}/quotas": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /** Set all quotas of an account; those left out are the store’s */
        put: operations["setAccountQuotas"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/accounts/{account_id}/api-keys": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Make an API key of an account */
        post: operations["createApiKeyOfAccount"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the cells of the account, oldest first */
        get: operations["listCells"];
        put?: never;
        /** Make a cell: an empty one, one with a state of another cell, or one with the content of a database */
        post: operations["createCell"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Describe a cell */
        get: operations["getCell"];
        put?: never;
        post?: never;
        /** Delete a cell; its backups stay */
        delete: operations["deleteCell"];
        options?: never;
        head?: never;
        /** Rename a cell */
        patch: operations["renameCell"];
        trace?: never;
    };
    "/v1/databases/{id}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Read the cell as one SQLite file */
        get: operations["exportCell"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/sql": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run one statement */
        post: operations["sql"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run statements and KV operations in one transaction, all or none */
        post: operations["batch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/v2/pipeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run the requests of a stream (Hrana 2) */
        post: operations["hranaPipelineV2"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/v3/pipeline": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run the requests of a stream (Hrana 3) */
        post: operations["hranaPipelineV3"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/v3/cursor": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Run a batch, and get its rows line by line (Hrana 3) */
        post: operations["hranaCursorV3"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/changes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Watch the commits of a cell, as Server-Sent Events */
        get: operations["changes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List entries in the order of their keys */
        get: operations["kvList"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Get an entry */
        get: operations["kvGet"];
        /** Put an entry */
        put: operations["kvPut"];
        post?: never;
        /** Delete an entry */
        delete: operations["kvDelete"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/incr": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Add to a counter */
        post: operations["kvIncr"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/ttl": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Seconds that entries have left */
        post: operations["kvTtl"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/expire": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Set or remove the time to live of an entry */
        post: operations["kvExpire"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/mget": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Get several entries */
        post: operations["kvMget"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/mset": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Put several entries, all or none */
        post: operations["kvMset"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/delete": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delete several entries at once */
        post: operations["kvDeleteMany"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/kv/ops/getdel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Get an entry and delete it */
        post: operations["kvGetdel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Back up the whole cell */
        post: operations["backup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/backup/incr": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Back up what changed since the newest backup */
        post: operations["backupIncremental"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/backups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** List the backups of a cell, newest first */
        get: operations["listBackups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/retention": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Which versions of the cell stay, which go, and why */
        get: operations["getRetention"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/backups/pin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Keep a version, whatever the plans say, for a key with the access owner */
        post: operations["pinBackup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/backups/unpin": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Let the plans decide over a version again */
        post: operations["unpinBackup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/restore": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Restore the cell, deleted or not, to its newest backup, a version or a time; or ask what that would do */
        post: operations["restore"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/databases/{id}/restores/{restore_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How far a restore is that was answered before its end */
        get: operations["getRestore"];
        put?: never;
        post?: never;
        /** Cancel a restore that was answered before its end, and say how it ended */
        delete: operations["cancelRestore"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Account: {
            /** Format: uuid */
            id: string;
            name: string | null;
            created_at: components["schemas"]["Time"];
            /** @description Since when every request with its keys is refused; null if it is not suspended. */
            suspended_at: components["schemas"]["Time"] | null;
            quotas: {
                /** @description Null: the quota of the store holds. */
                cells_max: number | null;
                /** @description Null: the quota of the store holds. */
                api_keys_max: number | null;
                /** @description Null: the quota of the store holds. */
                bytes_max: number | null;
                /** @description Null: the quota of the store holds. */
                requests_per_second: number | null;
            };
        };
        ApiKey: {
            /** Format: uuid */
            id: string;
            name: string | null;
            /** @description The first characters of the key. */
            hint: string;
            created_at: components["schemas"]["Time"];
            /**
             * @description What the key may do: read; also write; also make and change accounts.
             * @enum {string}
             */
            access: "read" | "write" | "owner";
            /** @description The only cells that the key is for; null: all of its account. */
            cell_ids: string[] | null;
            /**
             * @description kv: the key is for key-value entries only.
             * @enum {string}
             */
            surface: "kv" | "all";
            /** @description From when on the key is refused, be it that it was rotated; null: never. */
            expires_at: components["schemas"]["Time"] | null;
            last_used_at: components["schemas"]["Time"] | null;
        };
        Backup: {
            version: components["schemas"]["Version"];
            /** @enum {string} */
            kind: "snapshot" | "incremental";
            /** @description Of the stored object. */
            size_bytes: number;
            /** @description Of the stored object. */
            sha256: string;
            created_at: components["schemas"]["Time"];
            /** @description Milliseconds, to the microsecond. */
            duration_ms: number;
            base_version?: components["schemas"]["Version"] | null;
        };
        Cell: {
            /** Format: uuid */
            id: string;
            name: string | null;
            created_at: components["schemas"]["Time"];
        };
        CellDescription: {
            /** Format: uuid */
            id: string;
            name: string | null;
            created_at: components["schemas"]["Time"];
            /** @description Everything that the cell committed before it is in the object store, as far as this server knows; null if nothing is. */
            backed_up_to: components["schemas"]["Time"] | null;
            /** @description When this server last stored a backup of the cell, as far as it knows. */
            last_stored_at: components["schemas"]["Time"] | null;
            /** @description The version that the server has last restored to prove it. */
            last_proven: {
                version: string;
                proven_at: components["schemas"]["Time"];
            } | null;
            /** @enum {string} */
            status: "ok" | "quarantined";
            quarantine?: {
                /** @enum {string} */
                reason: "io_error" | "damaged";
                since: components["schemas"]["Time"];
            };
            size_bytes: number;
            last_backup: {
                version: string;
                /** @enum {string} */
                kind: "snapshot" | "incremental";
                created_at: components["schemas"]["Time"];
            } | null;
            /**
             * @description The object store did not say which backup is the last one.
             * @constant
             */
            last_backup_unknown?: true;
            /** @description The node that has the cell, where there are several. */
            node?: {
                /** Format: uuid */
                id: string;
                address: string;
            };
        };
        CreatedApiKey: {
            /** Format: uuid */
            id: string;
            name: string | null;
            /** @description The first characters of the key. */
            hint: string;
            created_at: components["schemas"]["Time"];
            /**
             * @description What the key may do: read; also write; also make and change accounts.
             * @enum {string}
             */
            access: "read" | "write" | "owner";
            /** @description The only cells that the key is for; null: all of its account. */
            cell_ids: string[] | null;
            /**
             * @description kv: the key is for key-value entries only.
             * @enum {string}
             */
            surface: "kv" | "all";
            /** @description From when on the key is refused, be it that it was rotated; null: never. */
            expires_at: components["schemas"]["Time"] | null;
            /** @description Only in this answer. */
            key: string;
        };
        DeleteResult: {
            key: string;
            deleted: boolean;
        };
        Entry: {
            key: string;
            value: string;
            /** @description Changes with each write of the entry, and never comes back. */
            version: string;
            ttl_seconds: components["schemas"]["TtlLeft"];
            expires_at: components["schemas"]["Time"] | null;
        };
        ExpireResult: {
            key: string;
            updated: boolean;
            version: string | null;
            ttl_seconds: components["schemas"]["TtlLeft"] | null;
        };
        FoundEntry: {
            /** @description As it was; null if there was none. */
            entry: components["schemas"]["Entry"] | null;
        };
        HranaBatch: {
            steps: {
                condition?: components["schemas"]["HranaCondition"];
                stmt: components["schemas"]["HranaStatement"];
            }[];
        };
        /** @description cond and conds hold further conditions. */
        HranaCondition: {
            /** @enum {string} */
            type: "ok" | "error" | "not" | "and" | "or" | "is_autocommit";
            step?: number;
            cond?: unknown;
            conds?: unknown[];
        };
        HranaError: {
            message: string;
            code: string;
        };
        HranaResult: {
            cols: {
                name: string;
                decltype: string | null;
            }[];
            rows: components["schemas"]["HranaValue"][][];
            affected_row_count: number;
            last_insert_rowid: string | null;
        };
        HranaStatement: {
            sql?: string;
            sql_id?: number;
            args?: components["schemas"]["HranaValue"][];
            named_args?: {
                name: string;
                value: components["schemas"]["HranaValue"];
            }[];
            want_rows?: boolean;
        };
        /** @description An integer is a string of its digits. A float is bound as REAL. */
        HranaValue: {
            /** @constant */
            type: "null";
        } | {
            /** @constant */
            type: "integer";
            value: string;
        } | {
            /** @constant */
            type: "float";
            value: number;
        } | {
            /** @constant */
            type: "text";
            value: string;
        } | {
            /** @constant */
            type: "blob";
            base64: string;
        };
        IncrResult: {
            key: string;
            value: components["schemas"]["WideInteger"];
            /** @description Changes with each write of the entry, and never comes back. */
            version: string;
            ttl_seconds: components["schemas"]["TtlLeft"];
            expires_at: components["schemas"]["Time"] | null;
        };
        ListedCell: {
            /** Format: uuid */
            id: string;
            name: string | null;
            created_at: components["schemas"]["Time"];
            /** @description Everything that the cell committed before it is in the object store, as far as this server knows; null if nothing is. */
            backed_up_to: components["schemas"]["Time"] | null;
            /** @description When this server last stored a backup of the cell, as far as it knows. */
            last_stored_at: components["schemas"]["Time"] | null;
            /** @description The version that the server has last restored to prove it. */
            last_proven: {
                version: string;
                proven_at: components["schemas"]["Time"];
            } | null;
            /**
             * @description Absent of a cell that was deleted.
             * @enum {string}
             */
            status?: "ok" | "quarantined";
            size_bytes: number;
            /** @description Of a cell that was deleted. */
            deleted_at?: components["schemas"]["Time"];
        };
        NodeStatus: {
            version: string;
            pid: number;
            store_id: string;
            data_dir: string;
            started_at: components["schemas"]["Time"];
            uptime_ms: number;
            statements: number;
            commits: number;
            requests: {
                /** @description Answered since the start, those of the owner’s commands too. */
                count: number;
                /** @description Of these, with a status of 500 or more. */
                failed: number;
                /** @description The ten that took the most time in all. */
                routes: {
                    method: string;
                    route: string;
                    count: number;
                    failed: number;
                    mean_ms: number;
                }[];
            };
            /** @description The newest requests with SQL that took 500 ms or more, the wait for a worker included. */
            slow_statements: {
                at: components["schemas"]["Time"];
                ms: number;
                route: string;
                status: number;
                cell_id: string | null;
                account_id: string | null;
                request_id: string;
            }[];
            cells: {
                count: number;
                open: number;
                bytes: number;
                largest: {
                    /** Format: uuid */
                    id: string;
                    name: string | null;
                    account_id: string | null;
                    size_bytes: number;
                }[];
                busiest: {
                    /** Format: uuid */
                    id: string;
                    name: string | null;
                    account_id: string | null;
                    operations: number;
                }[];
                quarantined_count: number;
                quarantined: {
                    /** Format: uuid */
                    id: string;
                    name: string | null;
                    account_id: string | null;
                    reason: string;
                    since: components["schemas"]["Time"];
                }[];
            };
            /** @description Null without an object store. */
            backups: {
                object_store: string;
                /** @description Null while it answers. */
                object_store_lost_at: components["schemas"]["Time"] | null;
                lag_ms: number;
                oldest_change_at: components["schemas"]["Time"] | null;
                changed: number;
                newest_stored_at: components["schemas"]["Time"] | null;
                damaged: number;
                stored: {
                    snapshot: number;
                    incremental: number;
                };
                failed: number;
                restored: number;
                recovered: number;
                restores_failed: number;
                /** @description Jobs, by their kind. */
                queue: {
                    [key: string]: {
                        waiting: number;
                        running: number;
                    };
                };
                /** @description Null if nothing is shipped. */
                shipping: {
                    backed_up_to: components["schemas"]["Time"] | null;
                    lag_ms: number;
                    waiting_bytes: number;
                    without_history: number;
                    /** @description Null while it works. */
                    failing_since: components["schemas"]["Time"] | null;
                    last_object: string | null;
                    objects: number;
                    bytes: number;
                } | null;
            } | null;
            /** @description The restore of cells that had no local data at the start; null if there were none. */
            recovery: {
                cells: number;
                recovered: number;
                failed: number;
                bytes: number;
                started_at: components["schemas"]["Time"];
                /** @description Null while it runs. */
                ended_at: components["schemas"]["Time"] | null;
                /** @description Null while nobody knows. */
                eta_ms: number | null;
                failures: {
                    /** Format: uuid */
                    id: string;
                    name: string | null;
                    account_id: string | null;
                    code: string;
                }[];
            } | null;
            /** @description Null if the node has none. */
            workers: {
                running: number;
                /** @description Those that ended early, by the reason. */
                ended: {
                    [key: string]: number;
                };
                operations_waiting: number;
                bytes_waiting: number;
            } | null;
            /** @description The newest ones. */
            failures: {
                at: components["schemas"]["Time"];
                /** @enum {string} */
                level: "warn" | "error";
                message: string;
                code: string | null;
                /** @description The message of its cause. */
                why: string | null;
                /** @description How often it happened in a row. */
                count: number;
                cell_id: string | null;
                account_id: string | null;
                request_id: string | null;
            }[];
        };
        Problem: {
            /** @constant */
            type: "about:blank";
            title: string;
            status: number;
            /** @description For people; may change. */
            detail: string;
            /** @description For programs. */
            code: string;
            request_id: string;
            /** @description The input that was wrong. */
            field?: string;
            /** @description The limit that was reached. */
            limit?: number;
            /** @description What the account has of what the limit bounds. */
            usage?: number;
            sqlite_code?: string;
            /**
             * @description Why the cell is quarantined.
             * @enum {string}
             */
            reason?: "io_error" | "damaged";
            /** @description The damaged part of a backup. */
            member?: string;
            /** @description The version that the damaged part belongs to. */
            version?: string;
            /** @description The methods that the path takes. */
            allowed?: string[];
            /** @description The operation of a batch, from 0. */
            index?: number;
        };
        /** @enum {string} */
        ProblemCode: "cell_not_found" | "cell_full" | "cell_quarantined" | "cell_restoring" | "name_taken" | "invalid_database" | "cells_missing" | "disk_full" | "no_backup" | "sql_error" | "sql_too_long" | "multiple_statements" | "param_count_mismatch" | "invalid_parameter" | "statement_not_allowed" | "statement_timeout" | "constraint_violation" | "result_too_large" | "result_memory_exceeded" | "transaction_too_large" | "stream_expired" | "transaction_timeout" | "transaction_lost" | "invalid_key" | "invalid_ttl" | "value_too_large" | "not_an_integer" | "integer_overflow" | "key_not_found" | "precondition_failed" | "backup_not_found" | "backup_corrupt" | "invalid_version" | "restore_in_progress" | "restore_not_found" | "restore_canceled" | "object_store_not_configured" | "object_store_unavailable" | "not_replicated" | "object_store_error" | "cluster_unavailable" | "quota_exceeded" | "unauthorized" | "forbidden" | "account_suspended" | "account_not_found" | "api_key_not_found" | "cell_moving" | "not_serving" | "not_found" | "method_not_allowed" | "unsupported_media_type" | "body_too_large" | "headers_too_large" | "request_timeout" | "invalid_json" | "invalid_request" | "idempotency_not_supported" | "idempotency_in_progress" | "idempotency_key_reused" | "rate_limited" | "busy" | "shutting_down" | "internal";
        PutResult: {
            key: string;
            created: boolean;
            /** @description Changes with each write of the entry, and never comes back. */
            version: string;
            ttl_seconds: components["schemas"]["TtlLeft"];
            expires_at: components["schemas"]["Time"] | null;
        };
        RestorePlan: {
            /** @constant */
            restored: false;
            /** @description The version that the restore would begin with. */
            version: string;
            /** @enum {string} */
            kind: "snapshot" | "incremental";
            /** @description Of the last commit that would be restored. */
            timestamp: components["schemas"]["Time"];
            /** @description The objects that the restore would read, in their order, and how much of each. */
            objects: {
                key: string;
                size_bytes: number;
            }[];
            /** @description Of all of them. */
            size_bytes: number;
            /** @description Of those of them that were stored after the version. */
            log_size_bytes: number;
        };
        RestoreResult: {
            /** @constant */
            restored: true;
            version: components["schemas"]["Version"];
            /** @enum {string} */
            kind: "snapshot" | "incremental";
            /** @description Of the restored database. */
            size_bytes: number;
            /** @description Milliseconds, to the microsecond. */
            duration_ms: number;
            /** @description Of the last commit that was restored. */
            timestamp: components["schemas"]["Time"] | null;
            /** @description A restore to this time brings the replaced state back. Null if nothing can. */
            replaced_at: components["schemas"]["Time"] | null;
        };
        RestoreStatus: {
            /** Format: uuid */
            id: string;
            /**
             * @description running also while it waits for its turn.
             * @enum {string}
             */
            state: "running" | "succeeded" | "failed";
            bytes_done: number;
            /** @description Null until it is known. */
            bytes_total: number | null;
            /** @description Milliseconds that the rest of the download will take; null while nobody knows. */
            eta_ms: number | null;
            started_at: components["schemas"]["Time"];
            ended_at: components["schemas"]["Time"] | null;
            result: components["schemas"]["RestoreResult"] | null;
            problem: components["schemas"]["Problem"] | null;
        };
        Retention: {
            /** @description For the versions that the node or its owner made. */
            plan: string;
            /** @description For those that were requested with a key. */
            tenant_plan: string;
            versions: {
                version: components["schemas"]["Version"];
                size_bytes: number;
                created_at: components["schemas"]["Time"];
                /**
                 * @description Who made it.
                 * @enum {string}
                 */
                origin: "schedule" | "owner" | "tenant";
                /** @description False: it is known to be damaged, or what it rests on is damaged or missing. */
                restorable: boolean;
                /**
                 * @description mark: it goes in a day; wait: it was marked less than a day ago; remove: it goes next.
                 * @enum {string}
                 */
                action: "keep" | "mark" | "wait" | "remove";
                /** @description Why it stays; null if nothing keeps it. */
                reason: ("pinned" | "current" | "proven" | "unproven" | "spare" | "history" | "damaged" | "needed" | "plan") | null;
                /** @description The step of the plan that keeps it. */
                step: string | null;
                marked_at: components["schemas"]["Time"] | null;
            }[];
        };
        RotatedApiKey: {
            /** Format: uuid */
            id: string;
            name: string | null;
            /** @description The first characters of the key. */
            hint: string;
            created_at: components["schemas"]["Time"];
            /**
             * @description What the key may do: read; also write; also make and change accounts.
             * @enum {string}
             */
            access: "read" | "write" | "owner";
            /** @description The only cells that the key is for; null: all of its account. */
            cell_ids: string[] | null;
            /**
             * @description kv: the key is for key-value entries only.
             * @enum {string}
             */
            surface: "kv" | "all";
            /** @description From when on the key is refused, be it that it was rotated; null: never. */
            expires_at: components["schemas"]["Time"] | null;
            /** @description Only in this answer. */
            key: string;
            /** @description The old key. */
            replaces: {
                /** Format: uuid */
                id: string;
                expires_at: components["schemas"]["Time"];
            };
        };
        /** @description An integer of JSON is bound with all of its digits, true and false as 1 and 0. */
        SqlParam: string | number | boolean | null | components["schemas"]["TypedInteger"] | {
            /** @constant */
            type: "real";
            value: number | components["schemas"]["TypedInteger"] | ("Infinity" | "-Infinity");
        } | {
            /** @constant */
            type: "blob";
            base64: string;
        };
        SqlResult: {
            columns: string[];
            /** @description Objects, or arrays if row_mode is "array". */
            rows: {
                [key: string]: components["schemas"]["SqlValue"];
            }[] | components["schemas"]["SqlValue"][][];
            row_count: number;
            changes: number;
            last_insert_rowid: components["schemas"]["WideInteger"] | null;
            /** @description Milliseconds, to the microsecond. */
            duration_ms: number;
        };
        /** @description An integer beyond ±(2^53−1) is a string of its digits, and an infinite real is "Infinity" or "-Infinity". */
        SqlValue: string | number | null | {
            /** @constant */
            type: "blob";
            base64: string;
        };
        /**
         * Format: date-time
         * @description RFC 3339 in UTC with milliseconds.
         */
        Time: string;
        /** @description Whole seconds left, rounded up; -1 if the entry does not expire. */
        TtlLeft: number;
        /** @description The digits of an integer of 64 bits. */
        TypedInteger: {
            /** @constant */
            type: "integer";
            value: string;
        };
        /** @description The key of the stored object, with the cell’s id and a timestamp. */
        Version: string;
        /** @description A number within ±(2^53−1), and beyond that a string of its digits. */
        WideInteger: number | string;
    };
    responses: {
        /** @description busy, shutting_down */
        healthz503: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "busy" | "shutting_down";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description headers_too_large */
        headers_too_large: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "headers_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description internal */
        internal: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "internal";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_request */
        invalid_request: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_request";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description request_timeout */
        request_timeout: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "request_timeout";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description account_suspended, forbidden */
        nodeStatus403: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "account_suspended" | "forbidden";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description busy, not_serving, shutting_down */
        nodeStatus503: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "busy" | "not_serving" | "shutting_down";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description not_found */
        not_found: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description rate_limited */
        rate_limited: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "rate_limited";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description unauthorized */
        unauthorized: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "unauthorized";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description account_suspended, forbidden, quota_exceeded */
        createApiKey403: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "account_suspended" | "forbidden" | "quota_exceeded";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large */
        body_too_large: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "body_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description cell_not_found */
        cell_not_found: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "cell_not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description disk_full */
        disk_full: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "disk_full";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description idempotency_not_supported, invalid_json, invalid_request */
        createApiKey400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "idempotency_not_supported" | "invalid_json" | "invalid_request";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description unsupported_media_type */
        unsupported_media_type: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "unsupported_media_type";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description api_key_not_found */
        api_key_not_found: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "api_key_not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_json, invalid_request */
        createAccount400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_json" | "invalid_request";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description account_not_found */
        account_not_found: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "account_not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description account_not_found, cell_not_found */
        createApiKeyOfAccount404: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "account_not_found" | "cell_not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description backup_corrupt, idempotency_key_reused, invalid_database */
        createCell422: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "backup_corrupt" | "idempotency_key_reused" | "invalid_database";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description backup_not_found, cell_not_found */
        createCell404: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "backup_not_found" | "cell_not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description busy, cells_missing, not_replicated, not_serving, object_store_unavailable, shutting_down */
        createCell503: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "busy" | "cells_missing" | "not_replicated" | "not_serving" | "object_store_unavailable" | "shutting_down";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description cell_full, disk_full */
        createCell507: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "cell_full" | "disk_full";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description idempotency_in_progress, name_taken, no_backup */
        createCell409: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "idempotency_in_progress" | "name_taken" | "no_backup";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description idempotency_not_supported, invalid_json, invalid_request, invalid_version */
        createCell400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "idempotency_not_supported" | "invalid_json" | "invalid_request" | "invalid_version";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description object_store_error */
        object_store_error: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "object_store_error";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description object_store_not_configured */
        object_store_not_configured: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "object_store_not_configured";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description backup_corrupt */
        backup_corrupt: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "backup_corrupt";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description busy, cell_moving, cell_quarantined, cell_restoring, cells_missing, not_replicated, not_serving, object_store_unavailable, shutting_down */
        getCell503: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "busy" | "cell_moving" | "cell_quarantined" | "cell_restoring" | "cells_missing" | "not_replicated" | "not_serving" | "object_store_unavailable" | "shutting_down";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description no_backup */
        no_backup: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "no_backup";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description name_taken, no_backup */
        renameCell409: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "name_taken" | "no_backup";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description account_suspended, forbidden, quota_exceeded, statement_not_allowed */
        sql403: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "account_suspended" | "forbidden" | "quota_exceeded" | "statement_not_allowed";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large, sql_too_long */
        sql413: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "body_too_large" | "sql_too_long";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description constraint_violation, no_backup */
        sql409: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "constraint_violation" | "no_backup";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_json, invalid_parameter, invalid_request, multiple_statements, param_count_mismatch, result_memory_exceeded, result_too_large, sql_error, transaction_too_large */
        sql400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_json" | "invalid_parameter" | "invalid_request" | "multiple_statements" | "param_count_mismatch" | "result_memory_exceeded" | "result_too_large" | "sql_error" | "transaction_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description request_timeout, statement_timeout */
        sql408: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "request_timeout" | "statement_timeout";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large, sql_too_long, value_too_large */
        batch413: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "body_too_large" | "sql_too_long" | "value_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description integer_overflow, invalid_json, invalid_key, invalid_parameter, invalid_request, invalid_ttl, multiple_statements, not_an_integer, param_count_mismatch, result_memory_exceeded, result_too_large, sql_error, transaction_too_large */
        batch400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "integer_overflow" | "invalid_json" | "invalid_key" | "invalid_parameter" | "invalid_request" | "invalid_ttl" | "multiple_statements" | "not_an_integer" | "param_count_mismatch" | "result_memory_exceeded" | "result_too_large" | "sql_error" | "transaction_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description precondition_failed */
        precondition_failed: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "precondition_failed";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana403: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana422: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana413: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana503: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana507: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana404: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana409: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana431: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana500: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana502: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana429: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                "Retry-After": components["headers"]["RetryAfter"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana408: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana401: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description An error, as Hrana writes it. */
        hrana415: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["HranaError"];
            };
        };
        /** @description invalid_key, invalid_request */
        changes400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_key" | "invalid_request";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description body_too_large, value_too_large */
        kvPut413: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "body_too_large" | "value_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_json, invalid_key, invalid_request, invalid_ttl */
        kvPut400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_json" | "invalid_key" | "invalid_request" | "invalid_ttl";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description cell_not_found, key_not_found */
        kvGet404: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "cell_not_found" | "key_not_found";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_json, invalid_key, invalid_request */
        kvDelete400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_json" | "invalid_key" | "invalid_request";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description integer_overflow, invalid_json, invalid_key, invalid_request, invalid_ttl, not_an_integer */
        kvIncr400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "integer_overflow" | "invalid_json" | "invalid_key" | "invalid_request" | "invalid_ttl" | "not_an_integer";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_json, invalid_key, invalid_request, result_too_large */
        kvMget400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_json" | "invalid_key" | "invalid_request" | "result_too_large";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description no_backup, restore_in_progress */
        backup409: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "no_backup" | "restore_in_progress";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description invalid_json, invalid_request, invalid_version */
        pinBackup400: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "invalid_json" | "invalid_request" | "invalid_version";
                } & components["schemas"]["Problem"];
            };
        };
        /** @description cell_not_found, restore_not_found */
        getRestore404: {
            headers: {
                "X-Request-Id": components["headers"]["RequestId"];
                [name: string]: unknown;
            };
            content: {
                "application/problem+json": {
                    /** @enum {unknown} */
                    code?: "cell_not_found" | "restore_not_found";
                } & components["schemas"]["Problem"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: {
        /** @description The request’s id: the one that was sent, or a new one. */
        RequestId: string;
        /** @description Seconds to wait before the request is sent again. */
        RetryAfter: number;
    };
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    healthz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The process serves */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        status: "ok";
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            408: components["responses"]["request_timeout"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["healthz503"];
        };
    };
    readyz: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The catalog is open */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @constant */
                        status: "ready";
                        /** @description Cells, and the catalog, with backups that proved damaged and no newer proven one. */
                        damaged_backups: number;
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            408: components["responses"]["request_timeout"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["healthz503"];
        };
    };
    openapi: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description This document */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        [key: string]: unknown;
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            408: components["responses"]["request_timeout"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["healthz503"];
        };
    };
    nodeStatus: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How the node is, for a key with the access owner */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["NodeStatus"];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["not_found"];
            408: components["responses"]["request_timeout"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
        };
    };
    listApiKeys: {
        parameters: {
            query?: {
                /** @description next_cursor of the page before. */
                cursor?: string;
                /** @description How many entries the page may have; at most limits.pageMax. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the active API keys of the account, newest first */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The path of the next page, if there is one. */
                    Link?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ApiKey"][];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            408: components["responses"]["request_timeout"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
        };
    };
    createApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string | null;
                    /** @enum {string} */
                    access?: "read" | "write" | "owner";
                    cell_ids?: string[] | null;
                    /** @enum {string} */
                    surface?: "kv" | "all";
                    expires_at?: string | null;
                };
            };
        };
        responses: {
            /** @description Make an API key of the account */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedApiKey"];
                };
            };
            400: components["responses"]["createApiKey400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    revokeApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Revoke an API key */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: uuid */
                        id: string;
                        /** @constant */
                        revoked: true;
                        revoked_at: components["schemas"]["Time"];
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["api_key_not_found"];
            408: components["responses"]["request_timeout"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    rotateApiKey: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                key_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    grace_ms?: number;
                    expires_at?: string | null;
                };
            };
        };
        responses: {
            /** @description Make a key of the same scope in place of another one, which expires */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RotatedApiKey"];
                };
            };
            400: components["responses"]["createApiKey400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["api_key_not_found"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    listAccounts: {
        parameters: {
            query?: {
                /** @description next_cursor of the page before. */
                cursor?: string;
                /** @description How many entries the page may have; at most limits.pageMax. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the accounts, oldest first */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        accounts: components["schemas"]["Account"][];
                        /** @description The cursor of the next page; null on the last one. */
                        next_cursor: string | null;
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            408: components["responses"]["request_timeout"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
        };
    };
    createAccount: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string | null;
                };
            };
        };
        responses: {
            /** @description Make an account */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    getAccount: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                account_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Describe an account */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["account_not_found"];
            408: components["responses"]["request_timeout"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
        };
    };
    suspendAccount: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                account_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description Refuse every request with the keys of an account */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["account_not_found"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    resumeAccount: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                account_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description End the suspension of an account */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["account_not_found"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    setAccountQuotas: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                account_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    cells_max?: number | null;
                    api_keys_max?: number | null;
                    bytes_max?: number | null;
                    requests_per_second?: number | null;
                };
            };
        };
        responses: {
            /** @description Set all quotas of an account; those left out are the store’s */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["account_not_found"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    createApiKeyOfAccount: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                account_id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string | null;
                    /** @enum {string} */
                    access?: "read" | "write" | "owner";
                    cell_ids?: string[] | null;
                    /** @enum {string} */
                    surface?: "kv" | "all";
                    expires_at?: string | null;
                };
            };
        };
        responses: {
            /** @description Make an API key of an account */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CreatedApiKey"];
                };
            };
            400: components["responses"]["createApiKey400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["createApiKeyOfAccount404"];
            408: components["responses"]["request_timeout"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
            507: components["responses"]["disk_full"];
        };
    };
    listCells: {
        parameters: {
            query?: {
                /** @description Only the cell of this name. */
                name?: string;
                /** @description The cells that were deleted, in place of those that exist. */
                deleted?: boolean;
                /** @description next_cursor of the page before. */
                cursor?: string;
                /** @description How many entries the page may have; at most limits.pageMax. */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the cells of the account, oldest first */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        databases: components["schemas"]["ListedCell"][];
                        /** @description The cursor of the next page; null on the last one. */
                        next_cursor: string | null;
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            408: components["responses"]["request_timeout"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            503: components["responses"]["nodeStatus503"];
        };
    };
    createCell: {
        parameters: {
            query?: {
                /** @description The name: for a body that is a database, which has no fields. */
                name?: string;
            };
            header?: {
                /** @description 1–255 printable ASCII characters. For 24 hours the same key with the same body gets the first answer again. */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    name?: string | null;
                    /** @description The new cell gets the state of this cell of the account, also of a deleted one. */
                    from?: {
                        cell_id: string;
                        version?: string;
                        /** Format: date-time */
                        timestamp?: string;
                    } | null;
                };
                "application/vnd.sqlite3": string;
            };
        };
        responses: {
            /** @description Make a cell: an empty one, one with a state of another cell, or one with the content of a database */
            201: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The path of the cell. */
                    Location?: string;
                    /** @description true, if this is the first answer again. */
                    "Idempotent-Replayed"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cell"];
                };
            };
            400: components["responses"]["createCell400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["createCell404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["createCell409"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["createCell422"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["createCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    getCell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Describe a cell */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CellDescription"];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    deleteCell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Delete a cell; its backups stay */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** Format: uuid */
                        id: string;
                        /** @constant */
                        deleted: true;
                    };
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    renameCell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    name: string | null;
                };
            };
        };
        responses: {
            /** @description Rename a cell */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cell"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["renameCell409"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    exportCell: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Read the cell as one SQLite file */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description A name for the file. */
                    "Content-Disposition"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.sqlite3": string;
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    sql: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    sql: string;
                    /** @description An array for ? and ?NNN, an object for :name, @name and $name. */
                    params?: components["schemas"]["SqlParam"][] | {
                        [key: string]: components["schemas"]["SqlParam"];
                    } | null;
                    /** @enum {string} */
                    row_mode?: "object" | "array";
                    /** @description How long the statements may run, in milliseconds: from 1 to http.statementMsMax, the default. */
                    timeout_ms?: number;
                };
            };
        };
        responses: {
            /** @description Run one statement */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["SqlResult"];
                };
            };
            400: components["responses"]["sql400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["sql403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["sql408"];
            409: components["responses"]["sql409"];
            413: components["responses"]["sql413"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    batch: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description How long the statements may run, in milliseconds: from 1 to http.statementMsMax, the default. */
                    timeout_ms?: number;
                    operations: ({
                        sql: string;
                        /** @description An array for ? and ?NNN, an object for :name, @name and $name. */
                        params?: components["schemas"]["SqlParam"][] | {
                            [key: string]: components["schemas"]["SqlParam"];
                        } | null;
                        /** @enum {string} */
                        row_mode?: "object" | "array";
                    } | {
                        value: string;
                        /** @description Whole seconds, up to 100 years (limits.ttlSecondsMax). */
                        ttl_seconds?: number;
                        /** @description Keeps the time to live that the entry has. */
                        keep_ttl?: boolean;
                        key: string;
                        /** @description Only if the entry has this version; null: only if there is none; "*": only if there is one. */
                        if_version?: string | null;
                        /** @constant */
                        kv: "put";
                    } | {
                        key: string;
                        /** @description An integer of 64 bits; 1 by default. */
                        delta?: number | components["schemas"]["TypedInteger"];
                        /** @description Whole seconds, up to 100 years (limits.ttlSecondsMax). */
                        ttl_seconds?: number;
                        /** @constant */
                        kv: "incr";
                    } | {
                        key: string;
                        ttl_seconds?: number | null;
                        /** @constant */
                        kv: "expire";
                    } | {
                        key: string;
                        if_version?: string;
                        /** @constant */
                        kv: "delete";
                    } | {
                        key: string;
                        /** @constant */
                        kv: "getdel";
                    })[];
                };
            };
        };
        responses: {
            /** @description Run statements and KV operations in one transaction, all or none */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description For each operation what it would answer alone. */
                        results: (components["schemas"]["SqlResult"] | components["schemas"]["PutResult"] | components["schemas"]["IncrResult"] | components["schemas"]["ExpireResult"] | components["schemas"]["DeleteResult"] | components["schemas"]["FoundEntry"])[];
                    };
                };
            };
            400: components["responses"]["batch400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["sql403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["sql408"];
            409: components["responses"]["sql409"];
            412: components["responses"]["precondition_failed"];
            413: components["responses"]["batch413"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    hranaPipelineV2: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    baton?: string | null;
                    requests: ({
                        /** @constant */
                        type: "execute";
                        stmt: components["schemas"]["HranaStatement"];
                    } | {
                        /** @constant */
                        type: "batch";
                        batch: components["schemas"]["HranaBatch"];
                    } | {
                        /** @enum {string} */
                        type: "sequence" | "describe";
                        sql?: string;
                        sql_id?: number;
                    } | {
                        /** @constant */
                        type: "store_sql";
                        sql_id: number;
                        sql: string;
                    } | {
                        /** @constant */
                        type: "close_sql";
                        sql_id: number;
                    } | {
                        /** @enum {string} */
                        type: "get_autocommit" | "close";
                    })[];
                };
            };
        };
        responses: {
            /** @description Run the requests of a stream (Hrana 2) */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        baton: string | null;
                        base_url: null;
                        results: ({
                            /** @constant */
                            type: "ok";
                            response: {
                                /** @constant */
                                type: "execute";
                                result: components["schemas"]["HranaResult"];
                            } | {
                                /** @constant */
                                type: "batch";
                                result: {
                                    step_results: (components["schemas"]["HranaResult"] | null)[];
                                    step_errors: (components["schemas"]["HranaError"] | null)[];
                                };
                            } | {
                                /** @constant */
                                type: "describe";
                                result: {
                                    params: {
                                        name: string | null;
                                    }[];
                                    cols: {
                                        name: string;
                                        decltype: string | null;
                                    }[];
                                    is_explain: boolean;
                                    is_readonly: boolean;
                                };
                            } | {
                                /** @constant */
                                type: "get_autocommit";
                                is_autocommit: boolean;
                            } | {
                                /** @enum {string} */
                                type: "sequence" | "store_sql" | "close_sql" | "close";
                            };
                        } | {
                            /** @constant */
                            type: "error";
                            error: components["schemas"]["HranaError"];
                        })[];
                    };
                };
            };
            400: components["responses"]["hrana400"];
            401: components["responses"]["hrana401"];
            403: components["responses"]["hrana403"];
            404: components["responses"]["hrana404"];
            408: components["responses"]["hrana408"];
            409: components["responses"]["hrana409"];
            413: components["responses"]["hrana413"];
            415: components["responses"]["hrana415"];
            422: components["responses"]["hrana422"];
            429: components["responses"]["hrana429"];
            431: components["responses"]["hrana431"];
            500: components["responses"]["hrana500"];
            502: components["responses"]["hrana502"];
            503: components["responses"]["hrana503"];
            507: components["responses"]["hrana507"];
        };
    };
    hranaPipelineV3: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    baton?: string | null;
                    requests: ({
                        /** @constant */
                        type: "execute";
                        stmt: components["schemas"]["HranaStatement"];
                    } | {
                        /** @constant */
                        type: "batch";
                        batch: components["schemas"]["HranaBatch"];
                    } | {
                        /** @enum {string} */
                        type: "sequence" | "describe";
                        sql?: string;
                        sql_id?: number;
                    } | {
                        /** @constant */
                        type: "store_sql";
                        sql_id: number;
                        sql: string;
                    } | {
                        /** @constant */
                        type: "close_sql";
                        sql_id: number;
                    } | {
                        /** @enum {string} */
                        type: "get_autocommit" | "close";
                    })[];
                };
            };
        };
        responses: {
            /** @description Run the requests of a stream (Hrana 3) */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        baton: string | null;
                        base_url: null;
                        results: ({
                            /** @constant */
                            type: "ok";
                            response: {
                                /** @constant */
                                type: "execute";
                                result: components["schemas"]["HranaResult"];
                            } | {
                                /** @constant */
                                type: "batch";
                                result: {
                                    step_results: (components["schemas"]["HranaResult"] | null)[];
                                    step_errors: (components["schemas"]["HranaError"] | null)[];
                                };
                            } | {
                                /** @constant */
                                type: "describe";
                                result: {
                                    params: {
                                        name: string | null;
                                    }[];
                                    cols: {
                                        name: string;
                                        decltype: string | null;
                                    }[];
                                    is_explain: boolean;
                                    is_readonly: boolean;
                                };
                            } | {
                                /** @constant */
                                type: "get_autocommit";
                                is_autocommit: boolean;
                            } | {
                                /** @enum {string} */
                                type: "sequence" | "store_sql" | "close_sql" | "close";
                            };
                        } | {
                            /** @constant */
                            type: "error";
                            error: components["schemas"]["HranaError"];
                        })[];
                    };
                };
            };
            400: components["responses"]["hrana400"];
            401: components["responses"]["hrana401"];
            403: components["responses"]["hrana403"];
            404: components["responses"]["hrana404"];
            408: components["responses"]["hrana408"];
            409: components["responses"]["hrana409"];
            413: components["responses"]["hrana413"];
            415: components["responses"]["hrana415"];
            422: components["responses"]["hrana422"];
            429: components["responses"]["hrana429"];
            431: components["responses"]["hrana431"];
            500: components["responses"]["hrana500"];
            502: components["responses"]["hrana502"];
            503: components["responses"]["hrana503"];
            507: components["responses"]["hrana507"];
        };
    };
    hranaCursorV3: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    baton?: string | null;
                    batch: components["schemas"]["HranaBatch"];
                };
            };
        };
        responses: {
            /** @description Run a batch, and get its rows line by line (Hrana 3) */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                };
            };
            400: components["responses"]["hrana400"];
            401: components["responses"]["hrana401"];
            403: components["responses"]["hrana403"];
            404: components["responses"]["hrana404"];
            408: components["responses"]["hrana408"];
            409: components["responses"]["hrana409"];
            413: components["responses"]["hrana413"];
            415: components["responses"]["hrana415"];
            422: components["responses"]["hrana422"];
            429: components["responses"]["hrana429"];
            431: components["responses"]["hrana431"];
            500: components["responses"]["hrana500"];
            502: components["responses"]["hrana502"];
            503: components["responses"]["hrana503"];
            507: components["responses"]["hrana507"];
        };
    };
    changes: {
        parameters: {
            query?: {
                /** @description Only commits that touch keys with this prefix. */
                prefix?: string;
                /** @description Only commits that touch one of these tables; with commas between their names. */
                tables?: string;
            };
            header?: {
                /** @description The id of the last event: go on after it. */
                "Last-Event-ID"?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Watch the commits of a cell, as Server-Sent Events */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": string;
                };
            };
            400: components["responses"]["changes400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvList: {
        parameters: {
            query?: {
                prefix?: string;
                /** @description next_cursor of the page before. */
                cursor?: string;
                /** @description How many entries the page may have; at most limits.pageMax. */
                limit?: number;
                reverse?: boolean;
                /** @description Whether entries have their values. */
                values?: boolean;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List entries in the order of their keys */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        entries: {
                            key: string;
                            /** @description Changes with each write of the entry, and never comes back. */
                            version: string;
                            ttl_seconds: components["schemas"]["TtlLeft"];
                            expires_at: components["schemas"]["Time"] | null;
                            value?: string;
                        }[];
                        /** @description The cursor of the next page; null on the last one. */
                        next_cursor: string | null;
                    };
                };
            };
            400: components["responses"]["changes400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvGet: {
        parameters: {
            query?: never;
            header?: {
                /** @description An ETag: 304 if the entry has this version. */
                "If-None-Match"?: string;
            };
            path: {
                id: string;
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Get an entry */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The entry’s version, in quotes. */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Entry"];
                };
            };
            /** @description The entry has the version of If-None-Match */
            304: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The entry’s version, in quotes. */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content?: never;
            };
            400: components["responses"]["changes400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["kvGet404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvPut: {
        parameters: {
            query?: never;
            header?: {
                /** @description An ETag: only if the entry has this version; *: only if there is one. */
                "If-Match"?: string;
                /** @description *: only if there is no entry. */
                "If-None-Match"?: string;
            };
            path: {
                id: string;
                key: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    value: string;
                    /** @description Whole seconds, up to 100 years (limits.ttlSecondsMax). */
                    ttl_seconds?: number;
                    /** @description Keeps the time to live that the entry has. */
                    keep_ttl?: boolean;
                };
            };
        };
        responses: {
            /** @description Put an entry */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The entry’s version, in quotes. */
                    ETag?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PutResult"];
                };
            };
            400: components["responses"]["kvPut400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            412: components["responses"]["precondition_failed"];
            413: components["responses"]["kvPut413"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvDelete: {
        parameters: {
            query?: never;
            header?: {
                /** @description An ETag: only if the entry has this version; *: only if there is one. */
                "If-Match"?: string;
            };
            path: {
                id: string;
                key: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Delete an entry */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeleteResult"];
                };
            };
            400: components["responses"]["kvDelete400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            412: components["responses"]["precondition_failed"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvIncr: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    key: string;
                    /** @description An integer of 64 bits; 1 by default. */
                    delta?: number | components["schemas"]["TypedInteger"];
                    /** @description Whole seconds, up to 100 years (limits.ttlSecondsMax). */
                    ttl_seconds?: number;
                };
            };
        };
        responses: {
            /** @description Add to a counter */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["IncrResult"];
                };
            };
            400: components["responses"]["kvIncr400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvTtl: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    keys: string[];
                };
            };
        };
        responses: {
            /** @description Seconds that entries have left */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": (components["schemas"]["TtlLeft"] | null)[];
                };
            };
            400: components["responses"]["kvDelete400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvExpire: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    key: string;
                    ttl_seconds?: number | null;
                };
            };
        };
        responses: {
            /** @description Set or remove the time to live of an entry */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExpireResult"];
                };
            };
            400: components["responses"]["kvPut400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvMget: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    keys: string[];
                };
            };
        };
        responses: {
            /** @description Get several entries */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        /** @description In the order of the keys; null for a missing one. */
                        entries: (components["schemas"]["Entry"] | null)[];
                    };
                };
            };
            400: components["responses"]["kvMget400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvMset: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    entries: {
                        value: string;
                        /** @description Whole seconds, up to 100 years (limits.ttlSecondsMax). */
                        ttl_seconds?: number;
                        /** @description Keeps the time to live that the entry has. */
                        keep_ttl?: boolean;
                        key: string;
                        /** @description Only if the entry has this version; null: only if there is none; "*": only if there is one. */
                        if_version?: string | null;
                    }[];
                };
            };
        };
        responses: {
            /** @description Put several entries, all or none */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        count: number;
                        entries: components["schemas"]["PutResult"][];
                    };
                };
            };
            400: components["responses"]["kvPut400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            412: components["responses"]["precondition_failed"];
            413: components["responses"]["kvPut413"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvDeleteMany: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    keys: string[];
                };
            };
        };
        responses: {
            /** @description Delete several entries at once */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        deleted: number;
                    };
                };
            };
            400: components["responses"]["kvDelete400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    kvGetdel: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    key: string;
                };
            };
        };
        responses: {
            /** @description Get an entry and delete it */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FoundEntry"];
                };
            };
            400: components["responses"]["kvDelete400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    backup: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description Back up the whole cell */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Backup"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["backup409"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    backupIncremental: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description Back up what changed since the newest backup */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Backup"];
                };
            };
            400: components["responses"]["createAccount400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["backup409"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    listBackups: {
        parameters: {
            query?: {
                /** @description next_cursor of the page before. */
                cursor?: string;
                /** @description How many entries the page may have; at most limits.pageMax. */
                limit?: number;
            };
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description List the backups of a cell, newest first */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        backups: {
                            version: components["schemas"]["Version"];
                            /** @enum {string} */
                            kind: "snapshot" | "incremental";
                            size_bytes: number;
                            created_at: components["schemas"]["Time"];
                            base_version: components["schemas"]["Version"] | null;
                        }[];
                        /** @description The cursor of the next page; null on the last one. */
                        next_cursor: string | null;
                        /** @description The times to which the cell can be restored from the versions on this page, newest first. Between two of them it can not. */
                        restorable: {
                            from: components["schemas"]["Time"];
                            to: components["schemas"]["Time"];
                        }[];
                    };
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    getRetention: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Which versions of the cell stay, which go, and why */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retention"];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["cell_not_found"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    pinBackup: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    version: string;
                };
            };
        };
        responses: {
            /** @description Keep a version, whatever the plans say, for a key with the access owner */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        version: components["schemas"]["Version"];
                        pinned: boolean;
                    };
                };
            };
            400: components["responses"]["pinBackup400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["createCell404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    unpinBackup: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    version: string;
                };
            };
        };
        responses: {
            /** @description Let the plans decide over a version again */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": {
                        version: components["schemas"]["Version"];
                        pinned: boolean;
                    };
                };
            };
            400: components["responses"]["pinBackup400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["createCell404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    restore: {
        parameters: {
            query?: never;
            header?: {
                /** @description respond-async: answer at once, and not at the end. */
                Prefer?: string;
            };
            path: {
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": {
                    version?: string;
                    /** Format: date-time */
                    timestamp?: string;
                    dry_run?: boolean;
                };
            };
        };
        responses: {
            /** @description Restore the cell, deleted or not, to its newest backup, a version or a time; or ask what that would do */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RestoreResult"] | components["schemas"]["RestorePlan"];
                };
            };
            /** @description The restore has begun, for a request that prefers respond-async */
            202: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    /** @description The path of its status. */
                    Location?: string;
                    /** @description respond-async */
                    "Preference-Applied"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RestoreStatus"];
                };
            };
            400: components["responses"]["pinBackup400"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["createApiKey403"];
            404: components["responses"]["createCell404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["backup409"];
            413: components["responses"]["body_too_large"];
            415: components["responses"]["unsupported_media_type"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            501: components["responses"]["object_store_not_configured"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    getRestore: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                restore_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description How far a restore is that was answered before its end */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RestoreStatus"];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["getRestore404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
    cancelRestore: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: string;
                restore_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Cancel a restore that was answered before its end, and say how it ended */
            200: {
                headers: {
                    "X-Request-Id": components["headers"]["RequestId"];
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RestoreStatus"];
                };
            };
            400: components["responses"]["invalid_request"];
            401: components["responses"]["unauthorized"];
            403: components["responses"]["nodeStatus403"];
            404: components["responses"]["getRestore404"];
            408: components["responses"]["request_timeout"];
            409: components["responses"]["no_backup"];
            422: components["responses"]["backup_corrupt"];
            429: components["responses"]["rate_limited"];
            431: components["responses"]["headers_too_large"];
            500: components["responses"]["internal"];
            502: components["responses"]["object_store_error"];
            503: components["responses"]["getCell503"];
            507: components["responses"]["createCell507"];
        };
    };
}
