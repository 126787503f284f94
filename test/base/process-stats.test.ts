import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import { expect, test, vi } from 'vitest'
import { ProcessStats } from '../../src/base/machine/process-stats.ts'

test.runIf(process.platform === 'linux')(
  'the figures of a process are read again and again, from files that are opened once and closed in the end',
  () => {
    const open = vi.spyOn(fs, 'openSync')
    const stats = new ProcessStats(process.pid)
    const before = stats.processorMs()
    for (let i = 0; i < 1e7; i++) Math.sqrt(i)
    while (stats.processorMs() === before) Math.sqrt(2)
    expect(stats.residentBytes()).toBeGreaterThan(1_048_576)
    expect(stats.waitedMs()).toBeGreaterThanOrEqual(0)
    expect(open).toHaveBeenCalledTimes(2)
    open.mockRestore()
    const ofFiles = () =>
      fs.readdirSync('/proc/self/fd').filter((fd) => {
        try {
          return fs.readlinkSync(`/proc/self/fd/${fd}`).startsWith(`/proc/${process.pid}/s`)
        } catch {
          return false
        }
      })
    expect(ofFiles()).toHaveLength(2)
    stats.close()
    expect(ofFiles()).toEqual([])
    expect(stats.residentBytes()).toBe(0)
  },
)

test('of a process that has ended nothing is known', async () => {
  const child = spawn(process.execPath, ['-e', 'setTimeout(() => {}, 60_000)'])
  const stats = new ProcessStats(child.pid as number)
  stats.residentBytes()
  child.kill('SIGKILL')
  await once(child, 'exit')
  expect([stats.residentBytes(), stats.processorMs(), stats.waitedMs()]).toEqual([0, 0, 0])
  stats.close()
})
