import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { Writable } from 'node:stream'
import { describe, expect, onTestFinished, test } from 'vitest'
import { StorePaths } from '../../src/base/files/store-paths.ts'
import { CellStore } from '../../src/store/cell-store.ts'
import { checkIntegrity } from '../support/integrity.ts'
import { filesBelow, tempDirectory } from '../support/temp-directory.ts'
import { codeOf, rejectedBy } from '../support/thrown.ts'

const DISK_BYTES = 8 * 1_048_576

/** Mounting a small disk takes root, and a kernel that lets it. */
const canMount = (() => {
  try {
    const probe = fs.mkdtempSync('/tmp/cellstore-mount-')
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=1m', 'tmpfs', probe], { stdio: 'ignore' })
    execFileSync('umount', [probe], { stdio: 'ignore' })
    fs.rmdirSync(probe)
    return true
  } catch {
    return false
  }
})()

function smallDisk(options = `size=${DISK_BYTES}`): string {
  const directory = tempDirectory('cellstore-disk')
  execFileSync('mount', ['-t', 'tmpfs', '-o', options, 'tmpfs', directory])
  onTestFinished(() => {
    execFileSync('umount', ['-l', directory])
  })
  return directory
}

/** Takes all the room that is left. */
function fillUp(disk: string): string {
  const file = path.join(disk, 'rest')
  const handle = fs.openSync(file, 'a')
  try {
    for (;;) fs.writeSync(handle, Buffer.alloc(4_096))
  } catch {
    fs.closeSync(handle)
  }
  return file
}

describe.skipIf(!canMount)('a disk without room (needs root, to mount a small one)', () => {
  test('takes no import and makes no export that would leave too little for all others', async () => {
    const directory = path.join(smallDisk(), 'data')
    const store = await CellStore.create(directory)
    const cell = store.createCell()
    const file = path.join(tempDirectory(), 'exported.db')
    await cell.export(file)
    expect(await rejectedBy(store.importCell(file))).toMatchObject({ code: 'disk_full' })
    const nowhere = new Writable({ write: (_chunk, _encoding, done) => done() })
    expect(await rejectedBy(cell.export(nowhere))).toMatchObject({ code: 'disk_full' })
    expect(store.cells().cells).toHaveLength(1)
    expect(fs.readdirSync(path.join(directory, 'spool'))).toEqual([])
    await store.close()
  })

  test('refuses changes as disk_full; what was acknowledged is there, reads work, and with room all goes on', async () => {
    const disk = smallDisk()
    const directory = path.join(disk, 'data')
    const ballast = path.join(disk, 'ballast')
    fs.writeFileSync(ballast, Buffer.alloc(4 * 1_048_576))
    const store = await CellStore.create(directory)
    const cell = store.createCell()
    cell.sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    let acknowledged = 0
    const fill = () => {
      for (;;) {
        cell.sql('INSERT INTO t (b) VALUES (randomblob(20000))')
        acknowledged++
      }
    }
    expect(codeOf(fill)).toBe('disk_full')
    const rest = fillUp(disk)
    expect(acknowledged).toBeGreaterThan(50)
    expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: acknowledged }])
    expect(codeOf(() => cell.kv.put('k', 'x'.repeat(100_000)))).toBe('disk_full')
    expect(await rejectedBy(cell.commit(() => cell.kv.put('k', 'x'.repeat(100_000))))).toMatchObject({
      code: 'disk_full',
    })
    expect(codeOf(() => cell.transaction(() => cell.kv.put('k', 'x'.repeat(100_000))))).toBe('disk_full')
    expect(cell.kv.get('k')).toBeUndefined()
    for (const file of [ballast, rest]) fs.rmSync(file)
    cell.sql('DELETE FROM t WHERE a > 10')
    cell.kv.put('k', 'v')
    await store.close()
    checkIntegrity(directory)
    const again = await CellStore.open(directory)
    expect(again.openCell(cell.id).sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 10 }])
    await again.close()
  })

  test('lets through what needs no room: the log is moved into the database, and restarted in place', async () => {
    const disk = smallDisk()
    const directory = path.join(disk, 'data')
    let store = await CellStore.create(directory)
    const { id } = store.createCell()
    store.openCell(id).sql('CREATE TABLE t (a INTEGER PRIMARY KEY, b)')
    for (let i = 0; i < 300; i++) store.openCell(id).sql('INSERT INTO t (b) VALUES (zeroblob(3000))')
    await store.close()
    store = await CellStore.open(directory)
    const cell = store.openCell(id)
    expect(cell.sql('SELECT count(*) AS n FROM t').rows).toEqual([{ n: 300 }])
    const rest = fillUp(disk)
    // Room for the log alone; the database is as large as it will be.
    fs.truncateSync(rest, fs.statSync(rest).size - 262_144)
    const outcomes = { done: 0, refused: 0 }
    for (let i = 0; i < 900; i++) {
      const change = () =>
        i % 3 === 0
          ? cell.sql('DELETE FROM t WHERE a = ?', [i / 3])
          : cell.sql('UPDATE t SET b = randomblob(3000) WHERE a = ?', [1 + (i % 300)])
      try {
        change()
        outcomes.done++
      } catch (error) {
        expect(error).toMatchObject({ code: 'disk_full' })
        outcomes.refused++
      }
    }
    expect(outcomes.refused).toBeGreaterThan(0)
    expect(outcomes.done).toBeGreaterThan(800)
    expect(cell.sql('SELECT count(*) AS n FROM t').rows[0]?.['n']).toBeLessThan(50)
    fs.rmSync(rest)
    await store.close()
    checkIntegrity(directory)
  })

  test('can be opened again with a few pages of room, and nothing is lost', async () => {
    const disk = smallDisk()
    const directory = path.join(disk, 'data')
    const store = await CellStore.create(directory)
    const cell = store.createCell()
    let acknowledged = 0
    const fill = () => {
      for (;;) cell.kv.put(`k${++acknowledged}`, 'x'.repeat(20_000))
    }
    expect(codeOf(fill)).toBe('disk_full')
    fillUp(disk)
    await store.close().catch(() => {})
    const rest = fillUp(disk)
    // SQLite needs a few pages of shared memory to open a file at all.
    expect(await rejectedBy(CellStore.open(directory))).toMatchObject({ code: 'disk_full' })
    fs.truncateSync(rest, fs.statSync(rest).size - 262_144)
    const again = await CellStore.open(directory)
    const { kv } = again.openCell(cell.id)
    expect([kv.get(`k${acknowledged - 1}`)?.length, kv.get(`k${acknowledged}`)]).toEqual([20_000, undefined])
    expect(kv.list({ limit: 1_000, values: false }).entries).toHaveLength(acknowledged - 1)
    await again.close().catch(() => {})
  })

  test('refuses a restore as disk_full, wherever the room ends', async () => {
    const disk = smallDisk()
    const objectStore = `file://${tempDirectory('cellstore-objects')}`
    const store = await CellStore.create(path.join(disk, 'data'), { objectStore })
    const cell = store.createCell()
    cell.kv.put('k', 'x'.repeat(20_000))
    await store.backups.snapshot(cell.id)
    cell.kv.put('k', 'restored')
    const { version } = await store.backups.incremental(cell.id)
    cell.kv.put('k', 'now')
    const ballast = fillUp(disk)
    const full = fs.statSync(ballast).size
    const restore = () => store.backups.restore(cell.id, { version })
    // SQLite applies the log of the incremental, and needs its shared memory for that.
    for (let room = 0; room < 65_536; room += 8_192) {
      fs.truncateSync(ballast, full - room)
      expect(await rejectedBy(restore())).toMatchObject({ code: 'disk_full' })
      expect(cell.kv.get('k')).toBe('now')
    }
    fs.rmSync(ballast)
    await restore()
    expect(cell.kv.get('k')).toBe('restored')
    await store.close()
  })

  test('refuses an import and a new cell from a backup as disk_full, wherever the room ends, and leaves nothing of them', async () => {
    const disk = smallDisk()
    const directory = path.join(disk, 'data')
    const objectStore = `file://${tempDirectory('cellstore-objects')}`
    const store = await CellStore.create(directory, { objectStore })
    const cell = store.createCell()
    cell.kv.put('k', 'x'.repeat(20_000))
    await store.backups.snapshot(cell.id)
    const file = path.join(tempDirectory(), 'exported.db')
    fs.writeFileSync(file, fs.readFileSync(store.core.paths.cell(cell.id).database))
    await store.core.catalogStored()
    const ballast = fillUp(disk)
    const full = fs.statSync(ballast).size
    const before = filesBelow(path.join(directory, 'cells'))
    const work = [
      () => store.importCell(file),
      () => store.createCell({ from: { cellId: cell.id } }),
      () => store.createCell({ from: { cellId: cell.id, timestamp: Date.now() - 1 } }),
    ]
    const codes = new Set<string>()
    for (let room = 0; room < 65_536; room += 4_096) {
      fs.truncateSync(ballast, full - room)
      for (const each of work) {
        const made = await each().catch((error) => void codes.add(error.code))
        if (made !== undefined) store.deleteCell(made.id)
      }
    }
    expect([...codes]).toEqual(['disk_full'])
    expect(filesBelow(path.join(directory, 'cells')).filter((each) => !before.includes(each))).toEqual([])
    expect(fs.readdirSync(path.join(directory, 'spool'))).toEqual([])
    fs.rmSync(ballast)
    await store.close()
  })

  test('has bytes, and no room for another file: nothing is made, and all that is refused is disk_full', async () => {
    const disk = smallDisk('size=200m,nr_inodes=50')
    const directory = path.join(disk, 'data')
    const objectStore = `file://${tempDirectory('cellstore-objects')}`
    const store = await CellStore.create(directory, { objectStore })
    const cell = store.createCell()
    cell.kv.put('k', 'v')
    const { version } = await store.backups.snapshot(cell.id)
    await store.core.catalogStored()
    const file = path.join(tempDirectory(), 'exported.db')
    await cell.export(file)
    const ballast = path.join(disk, 'ballast')
    fs.mkdirSync(ballast)
    const fill = () => {
      for (let i = 0; ; i++) fs.writeFileSync(path.join(ballast, `${i}`), '')
    }
    expect(fill).toThrow('ENOSPC')
    const before = filesBelow(directory)
    const work = [
      async () => store.createCell(),
      () => store.importCell(file),
      () => store.createCell({ from: { cellId: cell.id, version } }),
      () => store.backups.restore(cell.id, { version }),
    ]
    for (const each of work) expect(await rejectedBy(each())).toMatchObject({ code: 'disk_full' })
    expect(filesBelow(directory)).toEqual(before)
    expect(cell.kv.get('k')).toBe('v')
    fs.rmSync(ballast, { recursive: true })
    await store.importCell(file)
    await store.close()
  })

  test('makes no cell, leaves nothing of it, and the others go on', async () => {
    const disk = smallDisk()
    const store = await CellStore.create(path.join(disk, 'data'))
    const cell = store.createCell()
    cell.kv.put('k', 'v')
    const ballast = fillUp(disk)
    const before = filesBelow(path.join(disk, 'data', 'cells'))
    for (let i = 0; i < 3; i++) expect(codeOf(() => store.createCell())).toBe('disk_full')
    expect(filesBelow(path.join(disk, 'data', 'cells'))).toEqual(before)
    expect(cell.kv.get('k')).toBe('v')
    fs.rmSync(ballast)
    expect(store.createCell().kv.put('k', 'v').created).toBe(true)
    await store.close()
    checkIntegrity(path.join(disk, 'data'))
  })

  test('makes no store, and leaves nothing of it', async () => {
    const disk = smallDisk()
    const ballast = fillUp(disk)
    expect(await rejectedBy(CellStore.create(path.join(disk, 'data')))).toMatchObject({ code: 'disk_full' })
    expect(fs.readdirSync(disk)).toEqual(['rest'])
    fs.rmSync(ballast)
    await (await CellStore.create(path.join(disk, 'data'))).close()
  })

  test('refuses the recovery of a lost store as disk_full, wherever the room ends', async () => {
    const disk = smallDisk()
    const directory = path.join(disk, 'data')
    const objectStore = `file://${tempDirectory('cellstore-objects')}`
    const store = await CellStore.create(directory, { objectStore })
    const cell = store.createCell()
    cell.kv.put('k', 'v')
    await store.backups.snapshot(cell.id)
    await store.close()
    fs.rmSync(directory, { recursive: true })
    const ballast = fillUp(disk)
    const recover = () => CellStore.openOrCreate(directory, { objectStore, leaseMs: 1_000 })
    for (let refused = 0; ; refused++) {
      const start = recover()
      const error = await start.then(
        () => undefined,
        (reason) => reason,
      )
      if (error === undefined) {
        expect(refused).toBeGreaterThan(5)
        return await (await start).close().catch(() => {})
      }
      expect(error).toMatchObject({ code: 'disk_full' })
      fs.truncateSync(ballast, fs.statSync(ballast).size - 32_768)
    }
  })

  test('is another thing than a full cell', async () => {
    const disk = smallDisk()
    const store = await CellStore.create(path.join(disk, 'data'), { limits: { cellBytesMax: 1_048_576 } })
    const cell = store.createCell()
    cell.sql('CREATE TABLE t (b)')
    expect(codeOf(() => cell.sql('INSERT INTO t VALUES (zeroblob(1500000))'))).toBe('cell_full')
    await store.close()
  })

  test('loses no expiry hint for good, and a store with a full disk closes', async () => {
    const disk = smallDisk()
    const directory = path.join(disk, 'data')
    const store = await CellStore.create(directory)
    const cell = store.createCell()
    cell.kv.put('k', 'v', { ttlSeconds: 60 })
    fillUp(disk)
    await store.close().catch(() => {})
    fs.rmSync(path.join(disk, 'rest'))
    expect(fs.existsSync(new StorePaths(directory).owner)).toBe(false)
    const again = await CellStore.open(directory)
    expect(again.openCell(cell.id).kv.get('k')).toBe('v')
    await again.close()
  })
})

test.runIf(!canMount)('a full disk was not tested: this process may not mount one', () => {})
