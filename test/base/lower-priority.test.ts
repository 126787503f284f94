import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { lowerPriority } from '../../src/base/machine/lower-priority.ts'

const { PRIORITY_LOW } = os.constants.priority

test.runIf(process.platform === 'linux')('all threads of a process have the lower priority', async () => {
  const child = spawn(process.execPath, ['-e', 'console.log(1); setInterval(() => {}, 1e6)'])
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await once(child, 'close')
  })
  await once(child.stdout, 'data')
  const pid = child.pid as number
  const priorities = () => fs.readdirSync(`/proc/${pid}/task`).map((each) => os.getPriority(Number(each)))
  expect(priorities().length).toBeGreaterThan(1)
  lowerPriority(pid)
  expect(new Set(priorities())).toEqual(new Set([PRIORITY_LOW]))
})

test('a process that has ended is no error', () => {
  expect(() => lowerPriority(2 ** 30)).not.toThrow()
})
