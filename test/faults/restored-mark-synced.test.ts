import fs from 'node:fs'
import path from 'node:path'
import { expect, test } from 'vitest'
import { RestorePlace } from '../support/faults/restore-place.ts'
import { noStrace, ProgramUnderStrace } from '../support/faults/strace.ts'
import { pathOf, readTrace } from '../support/faults/trace.ts'
import { tempDirectory } from '../support/temp-directory.ts'

test.runIf(noStrace !== undefined)(`marks of restores were not traced: ${noStrace}`, () => {})

test.skipIf(noStrace !== undefined)(
  'before the mark of a restore is stored, the local state is on disk: a power loss does not let the replaced history go on',
  async () => {
    const root = tempDirectory('cellstore-mark')
    const place = await RestorePlace.create(path.join(root, 'place'))
    const folder = path.join(place.root, 'objects', 'snapshots', place.cell)
    const [oldest = ''] = fs
      .readdirSync(folder)
      .filter((name) => name.startsWith('backup-'))
      .sort()
    const version = `snapshots/${place.cell}/${oldest}`
    const output = path.join(root, 'trace')
    const calls = ['openat', 'pwrite64', 'fsync', 'fdatasync']
    const { stdout } = await ProgramUnderStrace.run('restore-program.ts', [place.root, place.cell, version], {
      output,
      calls,
    })
    expect(stdout).toContain('restored')
    const log = path.join(place.root, 'data', 'local.db-wal')
    let unsynced = 0
    let marks = 0
    for await (const call of readTrace(output)) {
      if (pathOf(call) === log) unsynced = call.name === 'pwrite64' ? unsynced + 1 : 0
      const opened = call.name === 'openat' ? (call.args[1]?.bytes ?? '').toString() : ''
      if (!/restored-/.test(opened) || !(call.args[2]?.text ?? '').includes('O_CREAT')) continue
      marks++
      expect(unsynced).toBe(0)
    }
    expect(marks).toBeGreaterThan(0)
  },
)
