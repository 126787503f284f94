import type { ObjectStore } from '../../src/backup/object-store/object-store.ts'
import { LogRow } from '../../src/backup/shipping/log/log-row.ts'
import { logKey } from '../../src/backup/versions/object-keys.ts'

/** Lists so many log objects, and looks at each of them as a restore does. Answers with how many there are. */
const [, , count] = process.argv

const store = {
  async head() {
    return undefined
  },
  async *list() {
    for (let number = 1; number <= Number(count); number++)
      yield { key: logKey({ epoch: 1, number }), size: 1 }
  },
}

const row = new LogRow(
  store as unknown as ObjectStore,
  async () => null,
  () => 1,
)
const refs = await row.after('', {})
let bytes = 0
for (let i = 0; i < refs.length; i += 16)
  for (const { sizeBytes } of refs.slice(i, i + 16)) bytes += sizeBytes
process.stdout.write(String(bytes))
