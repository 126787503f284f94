import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { describe, expect, test } from 'vitest'
import { ENTRY, Workplace } from '../support/cli/workplace.ts'
import { run, shellEnv } from '../support/package/run.ts'
import { until } from '../support/until.ts'

/** As a shell runs the command with its output sent elsewhere. */
const sent = (redirection: string, ...args: string[]) => [
  '-c',
  `exec "$0" "$@" ${redirection}`,
  process.execPath,
  ENTRY,
  ...args,
]

describe.skipIf(!fs.existsSync('/dev/full'))('output on a full disk', () => {
  test('of a command: a sentence says that the result is lost, and the exit code is 1', async () => {
    const place = new Workplace()
    const outcome = await run('sh', sent('>/dev/full', 'keys', 'generate'), {
      cwd: place.folder,
      env: place.env,
    })
    expect(outcome).toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^cellstore: The result could not be written to standard output: ENOSPC.*\.\n$/,
      ),
    })
  })

  test('of a node, its log: the node serves on, and ends with 0', async () => {
    const place = new Workplace()
    const node = spawn('sh', sent('2>/dev/full', 'serve', '--port', '0', '--log-level', 'debug'), {
      cwd: place.folder,
      env: { ...shellEnv(), ...place.env },
    })
    const ended = once(node, 'exit')
    let printed = ''
    node.stdout.on('data', (chunk) => {
      printed += chunk
    })
    const address = () => /http:\/\/[^\s"]+:[1-9]\d*/.exec(printed)?.[0]
    await until(() => address() !== undefined || node.exitCode !== null, 'the node serves')
    // At this level each request is logged.
    for (let i = 0; i < 3; i++) expect((await fetch(`${address()}/readyz`)).status).toBe(200)
    node.kill('SIGTERM')
    expect(await ended).toEqual([0, null])
  })
})
