// The packages of bench/peers/package.json, which the project's own check does not have. Their types are not needed here.
declare module '@deno/kv'
declare module '@keyv/sqlite'
declare module 'classic-level'
declare module 'lmdb'
declare module 'redis'
declare module 'vega'
declare module 'vega-lite'
