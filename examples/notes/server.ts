// Serves the notes: node server.ts. A folder is the object store here; s3://bucket/prefix?region=… works the same way.
import { serve } from '@hono/node-server'
import { CellStore } from 'cellstore'
import { notesApp } from './notes-app.ts'

const store = await CellStore.openOrCreate('./data', { objectStore: 'file://./objects', log: console })
const server = serve({ fetch: notesApp(store).fetch, hostname: '127.0.0.1', port: 3000 })
for (const signal of ['SIGINT', 'SIGTERM']) process.once(signal, () => server.close(() => store.close()))
