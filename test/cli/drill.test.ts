import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { ENTRY, Workplace } from '../support/cli/workplace.ts'
import { freePort } from '../support/free-port.ts'
import { programsOf } from '../support/package/page-programs.ts'
import { run } from '../support/package/run.ts'

const TOOLS = ['sh', 'jq', 'curl']
const hasTools = TOOLS.every((tool) => {
  try {
    return execFileSync('sh', ['-c', `command -v ${tool}`]).length > 0
  } catch {
    return false
  }
})

// Each command of the drill is a process, and other suites run beside this one.
test.skipIf(!hasTools)(
  'the disaster drill of docs/operations.md brings a killed node back without its directory',
  async () => {
    const place = new Workplace()
    const node = await place.serve('--port', String(await freePort()))
    const { body: cell } = await node.request('POST', '/v1/databases', { name: 'acme' })
    const base = `/v1/databases/${cell['id']}`
    await node.request('POST', `${base}/sql`, { sql: 'CREATE TABLE users (name TEXT)' })
    await node.request('PUT', `${base}/kv/plan`, { value: 'paid' })

    const { code, stdout, stderr } = await runDrill(place, new URL(node.address).port)
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/2 proven, 0 failed, 0 without a backup\nThe store is back/)
    expect(await node.ended).toEqual([null, 'SIGKILL'])
    expect(place.has('data.lost', 'catalog.db')).toBe(true)
    // The same key, at the node that the drill has started.
    expect(await node.request('GET', `${base}/kv/plan`)).toMatchObject({
      status: 200,
      body: { value: 'paid' },
    })
    expect(place.readOwner().pid).not.toBe(node.child.pid)
  },
  120_000,
)

/** Runs drill.sh in the place, with `cellstore` in its path. */
async function runDrill(place: Workplace, port: string) {
  const [script] = programsOf('docs/operations.md').filter(({ file }) => file === 'drill.sh')
  fs.writeFileSync(path.join(place.folder, 'drill.sh'), script?.text ?? 'exit 9')
  const command = path.join(place.folder, 'cellstore')
  fs.writeFileSync(command, `#!/bin/sh\nexec '${process.execPath}' '${ENTRY}' "$@"\n`, { mode: 0o700 })
  onTestFinished(() => killStarted(place))
  const env = {
    ...place.env,
    PATH: `${place.folder}${path.delimiter}${process.env['PATH']}`,
    CELLSTORE_DATA_DIR: place.dataDir,
    CELLSTORE_OBJECT_STORE: pathToFileURL(place.objects).href,
    CELLSTORE_PORT: port,
  }
  return await run('sh', ['drill.sh'], { cwd: place.folder, env, timeoutMs: 100_000 })
}

/** Nobody waits for the node that the drill leaves running. */
function killStarted(place: Workplace): void {
  if (!place.has('data', 'owner.json')) return
  try {
    process.kill(place.readOwner().pid, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
