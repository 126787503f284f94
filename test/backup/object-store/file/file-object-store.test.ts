import { randomBytes, randomUUID } from 'node:crypto'
import { EventEmitter } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { FileObjectStore } from '../../../../src/backup/object-store/file/file-object-store.ts'
import { bufferBody, type ObjectBody } from '../../../../src/backup/object-store/object-store.ts'
import type { Clock } from '../../../../src/base/clock.ts'
import { collectAll, expectBytes, expectCode, keysOf } from '../../../support/s3/object-store-checks.ts'
import { fenceContract } from '../../fence/fence.contract.ts'
import { objectStoreContract } from '../object-store.contract.ts'
import type { StoreUnderTest } from '../object-store-under-test.ts'

/** Errnos that the next calls of these functions fail with, in order. */
const faults = vi.hoisted(() => ({ link: [] as string[], rename: [] as string[] }))
/** The folders that were listed, and the files and folders that were fsynced. */
const seen = vi.hoisted(() => ({ listed: [] as string[], synced: [] as string[] }))

vi.mock('node:fs/promises', async (importActual) => {
  const actual = await importActual<typeof import('node:fs/promises')>()
  const failing =
    <A extends unknown[]>(name: 'link' | 'rename', call: (...args: A) => Promise<void>) =>
    async (...args: A): Promise<void> => {
      const code = faults[name].shift()
      if (code !== undefined) throw Object.assign(new Error(`${code}: injected`), { code, syscall: name })
      return call(...args)
    }
  const readdir = (...args: unknown[]) => {
    seen.listed.push(String(args[0]))
    return Reflect.apply(actual.readdir, actual, args)
  }
  const open = async (...args: Parameters<typeof actual.open>) => {
    const handle = await actual.open(...args)
    const sync = handle.sync.bind(handle)
    handle.sync = () => {
      seen.synced.push(String(args[0]))
      return sync()
    }
    return handle
  }
  return {
    ...actual,
    link: failing('link', actual.link),
    rename: failing('rename', actual.rename),
    readdir,
    open,
  }
})

const MIB = 1024 * 1024
let folder: string
let root: string

function makeFolder(): void {
  folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-objects-'))
  root = path.join(folder, 'objects')
}

function removeFolder(): void {
  faults.link = []
  faults.rename = []
  fs.rmSync(folder, { recursive: true, force: true })
}

async function folderSubject(): Promise<StoreUnderTest> {
  makeFolder()
  return {
    open: (patience) => new FileObjectStore({ root, patience }),
    strandUpload: async (key) => {
      const uploads = path.join(root, '.cellstore/uploads')
      fs.mkdirSync(uploads, { recursive: true })
      fs.writeFileSync(path.join(uploads, `${encodeURIComponent(key)}.${randomUUID()}`), 'the first half')
    },
    fill: async (key) => {
      fs.mkdirSync(path.join(root, path.dirname(key)), { recursive: true })
      fs.writeFileSync(path.join(root, key), key)
    },
    secrets: [folder],
    excludesOtherStores: { small: true, large: true },
    endsUploads: true,
    dispose: async () => removeFolder(),
  }
}

objectStoreContract('A folder', folderSubject)
fenceContract('a folder', folderSubject)

describe('A folder store', () => {
  let store: FileObjectStore
  beforeEach(() => {
    makeFolder()
    store = new FileObjectStore({ root })
  })
  afterEach(async () => {
    await store.close()
    removeFolder()
  })

  /** A finished file outside the store, as a spooled backup is. */
  function finishedFile(bytes: Buffer): ObjectBody & { path: string } {
    const file = path.join(folder, randomUUID())
    fs.writeFileSync(file, bytes, { mode: 0o600 })
    return { ...bufferBody(bytes), path: file }
  }

  /** Every file below the root, with those that no listing shows. */
  function filesOnDisk(): string[] {
    if (!fs.existsSync(root)) return []
    return fs
      .readdirSync(root, { recursive: true, withFileTypes: true })
      .filter((entry) => !entry.isDirectory())
      .map((entry) => path.relative(root, path.join(entry.parentPath, entry.name)))
      .sort()
  }

  test('links a finished file instead of copying it', async () => {
    const body = finishedFile(randomBytes(MIB))
    await store.put('a/b', { ...body, read: () => Promise.reject(new Error('nobody reads it')) })
    expect(fs.statSync(path.join(root, 'a/b')).ino).toBe(fs.statSync(body.path).ino)
    fs.rmSync(body.path)
    await expectBytes(store, 'a/b', await body.read(0, MIB))
  })

  test('copies where the file can not be linked: another length, no file, a link, another file system', async () => {
    const bytes = randomBytes(3000)
    const longer = finishedFile(Buffer.concat([bytes, bytes]))
    const symlink = path.join(folder, 'symlink')
    fs.symlinkSync(finishedFile(bytes).path, symlink)
    const paths = { a: longer.path, b: path.join(folder, 'absent'), c: symlink, d: finishedFile(bytes).path }
    for (const [key, file] of Object.entries(paths)) {
      faults.link = key === 'd' ? ['EXDEV'] : []
      await store.put(key, { ...bufferBody(bytes), path: file })
      await expectBytes(store, key, bytes)
      expect(fs.lstatSync(path.join(root, key)).nlink).toBe(1)
    }
    expect(filesOnDisk()).toEqual(['a', 'b', 'c', 'd'])
  })

  test('makes folders 0700 and files 0600, also for a finished file that was not', async () => {
    await store.put('deep/er/copied', bufferBody(Buffer.from('x')))
    const open = finishedFile(Buffer.from('y'))
    fs.chmodSync(open.path, 0o644)
    await store.put('deep/er/linked', open)
    const mode = (name: string) => fs.statSync(path.join(root, name)).mode & 0o777
    for (const name of ['.', 'deep', 'deep/er', '.cellstore', '.cellstore/uploads'])
      expect(mode(name)).toBe(0o700)
    for (const name of ['deep/er/copied', 'deep/er/linked']) expect(mode(name)).toBe(0o600)
  })

  test('makes what it stores survive a power loss: the bytes, their folder, and the folders above that are new', async () => {
    await store.put('first', bufferBody(Buffer.from('x')))
    seen.synced.length = 0
    await store.put('a/b/linked', finishedFile(Buffer.from('x')))
    expect(seen.synced).toEqual([root, path.join(root, 'a'), path.join(root, 'a/b')])
    await store.put('a/b/copied first', bufferBody(Buffer.from('x')))
    seen.synced.length = 0
    await store.put('a/b/copied', bufferBody(Buffer.from('x')))
    const uploads = path.join(root, '.cellstore/uploads')
    // The second one costs no folder.
    const unfinished = expect.stringContaining(path.join(uploads, 'a%2Fb%2Fcopied.'))
    expect(seen.synced).toEqual([unfinished, path.join(root, 'a/b')])
    seen.synced.length = 0
    await store.delete('a/b/copied')
    expect(seen.synced).toEqual([path.join(root, 'a/b')])
  })

  describe('on a file system without hard links', () => {
    const noLinks = (errno: string) => Array.from({ length: 20 }, () => errno)

    test.each(['EPERM', 'ENOTSUP', 'EOPNOTSUPP', 'ENOSYS', 'EMLINK'])(
      'stores all the same (%s)',
      async (errno) => {
        faults.link = noLinks(errno)
        const bytes = randomBytes(3 * MIB)
        await store.put('a/linked', finishedFile(bytes))
        await store.put('a/copied', bufferBody(bytes))
        await expectBytes(store, 'a/linked', bytes)
        await expectBytes(store, 'a/copied', bytes)
        expect(filesOnDisk()).toEqual(['a/copied', 'a/linked'])
      },
    )

    test('never overwrites an object (invariant 9)', async () => {
      faults.link = noLinks('EPERM')
      const bodies = [1, 2, 3, 4].map((n) => Buffer.alloc(1000, n))
      const stores = bodies.map(() => new FileObjectStore({ root }))
      const outcomes = await Promise.allSettled(
        bodies.map((bytes, index) => stores[index]?.put('contested', bufferBody(bytes))),
      )
      const winners = bodies.filter((_, index) => outcomes[index]?.status === 'fulfilled')
      expect(winners.length).toBe(1)
      await expectBytes(store, 'contested', winners[0] ?? Buffer.alloc(0))
      await expectCode(store.put('contested', bufferBody(Buffer.from('late'))), 'object_exists')
      expect(filesOnDisk()).toEqual(['contested'])
    })

    test('leaves a claim of a writer that crashed to the sweep', async () => {
      const scratch = path.join(root, '.cellstore/uploads/a/b')
      fs.mkdirSync(scratch, { recursive: true })
      fs.writeFileSync(path.join(scratch, 'claim'), '')
      faults.link = noLinks('EPERM')
      await expectCode(store.put('a/b', bufferBody(Buffer.from('x'))), 'object_store_unavailable')
      expect(await store.sweepUploads('a/', Date.UTC(2100, 0))).toBe(1)
      await store.put('a/b', bufferBody(Buffer.from('x')))
      expect(filesOnDisk()).toEqual(['a/b'])
    })

    test('leaves nothing when the rename fails', async () => {
      faults.link = noLinks('EPERM')
      faults.rename = ['EIO']
      await expectCode(store.put('a/b', bufferBody(Buffer.from('x'))), 'object_store_unavailable')
      expect(filesOnDisk()).toEqual([])
    })
  })

  test.each([
    ['ENOSPC', 'object_store_error'],
    ['EDQUOT', 'object_store_error'],
    ['EIO', 'object_store_unavailable'],
    ['EROFS', 'object_store_unavailable'],
    ['ESTALE', 'object_store_unavailable'],
  ] as const)('answers %s with %s and leaves nothing', async (errno, code) => {
    faults.link = [errno]
    await expectCode(store.put('a/b', bufferBody(Buffer.from('x'))), code)
    expect(filesOnDisk()).toEqual([])
    faults.link = [errno]
    const failure = await store.put('a/b', bufferBody(Buffer.from('x'))).catch((error: unknown) => error)
    expect(String(failure)).toContain(errno)
    expect(String(failure)).not.toContain(folder)
  })

  test('takes a missing root as an empty store and does not make it by looking', async () => {
    expect(await store.head('a')).toBeUndefined()
    expect(await store.get('a')).toBeUndefined()
    expect(await keysOf(store, '')).toEqual([])
    expect(await store.sweepUploads('', Date.UTC(2100, 0))).toBe(0)
    await store.delete('a')
    expect(fs.existsSync(root)).toBe(false)
  })

  test('is unavailable where its root, or what is above it, is a file', async () => {
    fs.writeFileSync(root, '')
    for (const broken of [store, new FileObjectStore({ root: path.join(root, 'below') })]) {
      await expectCode(broken.head('a/b'), 'object_store_unavailable')
      await expectCode(broken.get('a/b'), 'object_store_unavailable')
      await expectCode(keysOf(broken, ''), 'object_store_unavailable')
      await expectCode(keysOf(broken, 'a/'), 'object_store_unavailable')
      await expectCode(broken.put('a/b', bufferBody(Buffer.from('x'))), 'object_store_unavailable')
      await expectCode(broken.delete('a/b'), 'object_store_unavailable')
    }
  })

  test('tells a key that goes on where another one ended from a store that is down', async () => {
    await store.put('a/b', bufferBody(Buffer.from('x')))
    await expectCode(store.put('a/b/c', bufferBody(Buffer.from('x'))), 'object_store_error')
    await expectCode(store.put('a', bufferBody(Buffer.from('x'))), 'object_store_error')
    expect(filesOnDisk()).toEqual(['a/b'])
  })

  test('does not take links, pipes and folders for objects', async () => {
    await store.put('a/file', bufferBody(Buffer.from('x')))
    const outside = path.join(folder, 'outside')
    fs.writeFileSync(outside, 'secret')
    fs.symlinkSync(outside, path.join(root, 'a/link'))
    fs.symlinkSync(folder, path.join(root, 'away'))
    for (const key of ['a/link', 'a']) {
      expect(await store.get(key)).toBeUndefined()
      expect(await store.head(key)).toBeUndefined()
    }
    expect(await keysOf(store, '')).toEqual(['a/file'])
  })

  test('lists a prefix that names a folder without looking into others', async () => {
    for (const key of ['cells/a/1', 'cells/b/1', 'other/1'])
      await store.put(key, bufferBody(Buffer.from('x')))
    seen.listed.length = 0
    expect(await keysOf(store, 'cells/a/')).toEqual(['cells/a/1'])
    expect(seen.listed).toEqual([path.join(root, 'cells/a/')])
  })

  test('ends a read of a file that shrank with an error, never with a normal end', async () => {
    // More than is read ahead.
    const bytes = randomBytes(8 * MIB)
    await store.put('shrinks', bufferBody(bytes))
    const content = await store.get('shrinks')
    const reading = (async () => {
      for await (const _ of content?.body ?? []) fs.truncateSync(path.join(root, 'shrinks'), 300_000)
    })()
    await expectCode(reading, 'object_store_error')
  })

  test('removes folders that deleting has emptied, and none that another put is about to use', async () => {
    await store.put('a/b/c', bufferBody(Buffer.from('x')))
    await store.delete('a/b/c')
    expect(fs.readdirSync(root).filter((name) => name !== '.cellstore')).toEqual([])
    for (let round = 0; round < 50; round++) {
      await store.put(`a/b/${round}`, bufferBody(Buffer.from('x')))
      await Promise.all([
        store.delete(`a/b/${round}`),
        store.put(`a/b/${round + 100}`, bufferBody(Buffer.from('y'))),
      ])
      await store.delete(`a/b/${round + 100}`)
    }
    expect(filesOnDisk()).toEqual([])
  })

  test('makes a folder again that another call has pruned between its making and its use', async () => {
    faults.link = ['ENOENT', 'ENOENT']
    await store.put('a/b', bufferBody(Buffer.from('x')))
    expect(filesOnDisk()).toEqual(['a/b'])
  })

  test('stores objects with keys of any length, and leaves nothing beside them', async () => {
    const keys = ['short', `${'a'.repeat(200)}/${'é'.repeat(100)}`, `${'b'.repeat(255)}/${'c'.repeat(255)}`]
    for (const key of keys) await store.put(key, bufferBody(Buffer.from(key)))
    for (const key of keys) await expectBytes(store, key, Buffer.from(key))
    expect(filesOnDisk().sort()).toEqual([...keys].sort())
    expect(fs.readdirSync(path.join(root, '.cellstore/uploads'))).toEqual([])
  })

  test('sweeps unfinished files of keys that are too long for a name, and those of earlier versions, by their keys', async () => {
    const uploads = path.join(root, '.cellstore/uploads')
    const id = randomUUID()
    const long = `a/${'é'.repeat(100)}`
    for (const key of ['a/b', 'b/a', long]) {
      fs.mkdirSync(path.join(uploads, key), { recursive: true })
      fs.writeFileSync(path.join(uploads, key, id), 'x')
    }
    fs.writeFileSync(path.join(uploads, `a%2Fflat.${id}`), 'x')
    fs.writeFileSync(path.join(uploads, `%E0%A4%A.${id}`), 'not of a key')
    const asked: string[] = []
    const owns = (key: string) => asked.push(key) > 0
    expect(await store.sweepUploads('a/', Date.UTC(2100, 0), { owns })).toBe(3)
    expect(asked.sort()).toEqual(['a/b', 'a/flat', long])
    expect(filesOnDisk()).toEqual([`.cellstore/uploads/%E0%A4%A.${id}`, `.cellstore/uploads/b/a/${id}`])
  })

  test('sweeps only what was begun before the given time', async () => {
    for (const name of ['old', 'new']) {
      fs.mkdirSync(path.join(root, '.cellstore/uploads/key'), { recursive: true })
      fs.writeFileSync(path.join(root, '.cellstore/uploads/key', name), 'x')
    }
    fs.utimesSync(path.join(root, '.cellstore/uploads/key/old'), 1000, 1000)
    expect(await store.sweepUploads('', 1_000_001)).toBe(1)
    expect(filesOnDisk()).toEqual(['.cellstore/uploads/key/new'])
  })

  test('gives up at its deadline, whatever the file system does (invariant 13)', async () => {
    const timers = new EventEmitter()
    const clock: Clock = {
      now: () => 0,
      monotonic: () => 0,
      sinceBoot: () => 0,
      setTimer: (run) => {
        timers.once('fire', run)
        return { cancel: () => timers.off('fire', run) }
      },
    }
    const slow = new FileObjectStore({ root, clock })
    const pending = [slow.head('a'), slow.get('a'), collectAll(slow.list('')), slow.delete('a')]
    timers.emit('fire')
    for (const call of pending) await expectCode(call, 'object_store_unavailable')
    await slow.close()
  })

  test('closes the file of a body that nobody reads', async () => {
    await store.put('a', bufferBody(Buffer.from('x')))
    const controller = new AbortController()
    const content = await store.get('a', { signal: controller.signal })
    expect(content?.size).toBe(1)
    expect(openFiles()).toContain(path.join(root, 'a'))
    controller.abort()
    await expect.poll(openFiles).not.toContain(path.join(root, 'a'))
  })

  function openFiles(): string[] {
    return fs.readdirSync('/proc/self/fd').flatMap((fd) => {
      try {
        return [fs.readlinkSync(`/proc/self/fd/${fd}`)]
      } catch {
        return []
      }
    })
  }
})
