import { expect, test } from 'vitest'
import { StorePaths } from '../../../src/base/files/store-paths.ts'
import { readOwner } from '../../../src/catalog/directory-lock.ts'
import { FakeClock } from '../../support/fake-clock.ts'
import { isAlive } from '../../support/processes.ts'
import { rejectedBy } from '../../support/thrown.ts'
import { until } from '../../support/until.ts'
import { openWorkerStore } from '../../support/worker-store.ts'

test('an archiver that answers nothing is ended; the job that was there three times is given up and named, and others go on (invariant 13)', async () => {
  const clock = new FakeClock()
  const node = await openWorkerStore({ store: { clock, backups: { maxLagMs: null } } })
  const archiver = () => readOwner(new StorePaths(node.directory))?.archiver?.pid
  const [cell, other] = [node.store.createCell().id, node.store.createCell().id]
  const frozen = new Set<number>()
  const onProgress = () => {
    const pid = archiver()
    if (pid === undefined || frozen.has(pid)) return
    frozen.add(pid)
    process.kill(pid, 'SIGSTOP')
  }
  const given = rejectedBy(node.service.backups.snapshot(cell, { onProgress }))
  for (let time = 1; time <= 3; time++) {
    await until(() => frozen.size === time, 'the archiver is at the job')
    const pid = [...frozen].at(-1) as number
    await until(() => {
      // Until the watch has had its looks; what the pauses of the node's other parts are does not matter.
      clock.advance(5_000)
      return !isAlive(pid)
    }, 'it is ended')
    await until(() => {
      clock.advance(100)
      return time === 3 || (archiver() ?? pid) !== pid
    }, 'another one has started')
  }
  expect(await given).toMatchObject({ code: 'busy' })
  const lines = node.log.filter(({ fields }) => fields['cells'] !== undefined)
  expect(lines.map(({ fields }) => fields['cells'])).toEqual([[cell], [cell], [cell]])
  expect(
    node.log.find(({ message }) => message.startsWith('a job of the archiver was given up')),
  ).toMatchObject({
    fields: { cellId: cell, job: 'backup' },
  })
  const next = node.service.backups.snapshot(other)
  await until(() => {
    clock.advance(100)
    return archiver() !== undefined && !frozen.has(archiver() as number)
  }, 'another one has started')
  expect((await next).kind).toBe('snapshot')
})
