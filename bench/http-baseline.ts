import type { ServerResponse } from 'node:http'
import { type Change, Databases, type Entries } from './baseline-entries.ts'
import { answer, serveBare } from './baseline-server.ts'

/**
 * What a server of entries can't do without, and nothing else: node:http, prepared statements, and for changes one
 * transaction for all that came in one turn of the event loop, answered once it is on disk. It knows no keys, no routes
 * and no errors. Its argument is a directory; it prints its address when it serves.
 */
const databases = new Databases(process.argv[2] ?? '')
const groups = new Map<Entries, [Change, ServerResponse][]>()

serveBare((method, url, body, response) => {
  const [entries, result] = databases.run(method, url, body)
  if (typeof result !== 'function') {
    answer(response, JSON.stringify(result))
    return
  }
  const group = groups.get(entries)
  if (group !== undefined) group.push([result as Change, response])
  else {
    groups.set(entries, [[result as Change, response]])
    setImmediate(() => commitGroup(entries))
  }
})

function commitGroup(entries: Entries): void {
  const group = groups.get(entries) ?? []
  groups.delete(entries)
  const results = entries.commit(group.map(([change]) => change))
  for (const [i, [, response]] of group.entries()) answer(response, JSON.stringify(results[i]))
}
