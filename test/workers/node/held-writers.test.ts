import fs from 'node:fs'
import path from 'node:path'
import { expect, test, vi } from 'vitest'
import { systemClock } from '../../../src/base/clock.ts'
import { holdWriters } from '../../../src/workers/node/held-writers.ts'
import { tempDirectory } from '../../support/temp-directory.ts'
import { until } from '../../support/until.ts'

test.runIf(process.platform === 'linux')(
  'Writers of files are held until the flush is over, whether it succeeds or fails; files that are gone hold up nobody',
  async () => {
    const file = path.join(tempDirectory('cellstore-held'), 'log')
    const files = [file, `${file}-other`]
    for (const each of files) fs.writeFileSync(each, Buffer.alloc(2_000_000, 'x'))
    const reads = vi.fn()
    const handle = await fs.promises.open(file)
    const prototype = Object.getPrototypeOf(handle)
    await handle.close()
    const { read } = prototype
    prototype.read = function (...args: unknown[]) {
      reads()
      return read.apply(this, args)
    }
    try {
      for (const error of [undefined, new Error('EIO')]) {
        reads.mockClear()
        const flushed = Promise.withResolvers<void>()
        let isOver = false
        const held = holdWriters(systemClock, [...files, `${file}-gone`], flushed.promise).then(() => {
          isOver = true
        })
        await until(() => reads.mock.calls.length > 40, 'the files are read again and again')
        expect(isOver).toBe(false)
        if (error === undefined) flushed.resolve()
        else flushed.reject(error)
        await held
      }
    } finally {
      prototype.read = read
    }
    for (const each of files) expect(fs.readFileSync(each).equals(Buffer.alloc(2_000_000, 'x'))).toBe(true)
  },
)

test('A flush that is soon over holds up nobody', async () => {
  await holdWriters(systemClock, ['/nowhere'], Promise.resolve())
  await holdWriters(systemClock, ['/nowhere'], Promise.reject(new Error('EIO')))
})
