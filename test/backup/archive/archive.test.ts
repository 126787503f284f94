import { execFileSync } from 'node:child_process'
import { createHash, randomBytes, randomFillSync } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import zlib from 'node:zlib'
import { pack } from 'tar-stream'
import { describe, expect, test } from 'vitest'
import { readArchive } from '../../../src/backup/archive/archive-reader.ts'
import { writeArchive } from '../../../src/backup/archive/archive-writer.ts'
import { walMember } from '../../../src/backup/archive/manifest.ts'
import { Spool } from '../../../src/backup/archive/spool.ts'
import { BLOCK_BYTES } from '../../../src/backup/archive/zstd/seekable-zstd.ts'
import { CellError } from '../../../src/errors.ts'
import {
  archiveOf,
  blockEnds,
  inChunks,
  manifestOf,
  memberOf,
  membersIn,
  readManifest,
  receive,
} from '../../support/backup/archives.ts'
import { hasTools } from '../../support/backup/tools.ts'
import { filesBelow, tempDirectory } from '../../support/temp-directory.ts'
import { rejectedBy } from '../../support/thrown.ts'

const ignoreAll = {
  manifest: () => {},
  member: (_: string, __: number, bytes: AsyncIterable<Buffer>) => receive(bytes),
}

const HAS_TOOLS = hasTools('zstd', 'tar', 'sha256sum')

/** Half of it compresses. */
function content(bytes: number): Buffer {
  return Buffer.concat([randomBytes(Math.ceil(bytes / 2)), Buffer.alloc(Math.floor(bytes / 2), 'x')])
}

describe('An archive', () => {
  // Where the first data block ends depends on the headers before; sizes around it meet every edge.
  const edge = BLOCK_BYTES - 512
  test.each([
    1,
    511,
    512,
    513,
    edge - 1_024,
    edge - 513,
    edge - 512,
    edge,
    edge + 1,
    2 * BLOCK_BYTES,
    9_999_999,
  ])('gives back a member of %i bytes, in whatever chunks it comes', async (size) => {
    const bytes = content(size)
    const archive = await archiveOf([memberOf('cell.db', bytes)])
    for (const chunkBytes of size < 10_000 ? [1, 7, 65_536, 2 ** 30] : [65_536, 1_000_003, 2 ** 30]) {
      const members = await membersIn(archive, chunkBytes)
      expect([...members.keys()]).toEqual(['manifest.json', 'cell.db'])
      expect(members.get('cell.db')?.equals(bytes)).toBe(true)
    }
  })

  test('gives back many members in their order, and an empty one', async () => {
    const members = Array.from({ length: 40 }, (_, i) => memberOf(walMember(i), content(i * 1_000)))
    const read = await membersIn(await archiveOf(members))
    expect([...read.keys()]).toEqual(['manifest.json', ...members.map(({ name }) => name)])
    for (const { name, size, read: bytes } of members) {
      const expected = Buffer.alloc(size)
      await bytes(expected, 0)
      expect(read.get(name)).toEqual(expected)
    }
  })

  test.runIf(HAS_TOOLS)('is opened by zstd and tar, and its checksums by sha256sum', async () => {
    const folder = tempDirectory()
    const bytes = content(9_000_000)
    fs.writeFileSync(
      path.join(folder, 'backup'),
      await archiveOf([memberOf('cell.db', bytes), memberOf('wal-000001', content(5_000))]),
    )
    execFileSync('sh', ['-c', 'zstd -dqc < backup | tar x && rm backup'], { cwd: folder })
    expect(filesBelow(folder)).toEqual(['cell.db', 'checksums.json', 'manifest.json', 'wal-000001'])
    expect(fs.readFileSync(path.join(folder, 'cell.db')).equals(bytes)).toBe(true)
    const { members } = JSON.parse(fs.readFileSync(path.join(folder, 'checksums.json'), 'utf8'))
    const lines = members
      .map(({ name, sha256 }: { name: string; sha256: string }) => `${sha256}  ${name}\n`)
      .join('')
    execFileSync('sha256sum', ['--check', '--strict', '-'], { cwd: folder, input: lines })
  })

  test.runIf(HAS_TOOLS)(
    'is in the standard seekable layout: every block by itself, and a table of them at the end',
    async () => {
      const bytes = content(3 * BLOCK_BYTES)
      const archive = await archiveOf([memberOf('cell.db', bytes)])
      const ends = blockEnds(archive)
      expect(ends.length).toBeGreaterThan(4)
      const blocks = ends
        .slice(0, -1)
        .map((end, i) => zlib.zstdDecompressSync(archive.subarray(ends[i - 1] ?? 0, end)))
      for (const block of blocks) expect(block.length).toBeLessThanOrEqual(BLOCK_BYTES)
      const whole = execFileSync('zstd', ['-dqc'], { input: archive, maxBuffer: 2 ** 30 })
      expect(Buffer.concat(blocks).equals(whole)).toBe(true)
      const table = archive.subarray(ends.at(-2))
      expect(table.readUInt32LE(0)).toBe(0x184d2a5e)
      expect(table.readUInt32LE(table.length - 4)).toBe(0x8f92eab1)
    },
  )

  test('has its manifest in a block of its own, which its first bytes suffice to read', async () => {
    const manifest = manifestOf({ name: 'the first to come' })
    const archive = await archiveOf([memberOf('cell.db', content(100_000))], manifest)
    const [end] = blockEnds(archive)
    expect(await readManifest(archive.subarray(0, end), false)).toEqual(manifest)
    expect(await readManifest(archive.subarray(0, (end as number) - 1), false)).toBeUndefined()
    expect(await readManifest(archive.subarray(0, 3), false)).toBeUndefined()
    const cut = await rejectedBy(readManifest(archive.subarray(0, (end as number) - 1), true))
    expect(cut.code).toBe('backup_corrupt')
  })
})

describe('A source that fails while it is archived', () => {
  const failing = (at: number) => ({
    name: 'cell.db',
    size: 50_000_000,
    read: async (bytes: Buffer, offset: number) => {
      if (offset >= at) throw new Error('the disk is gone')
      randomFillSync(bytes)
    },
  })

  test.each([0, 1_048_576, 30_000_000])(
    'after %i bytes ends the archive with its own error and leaves no file',
    async (at) => {
      const folder = tempDirectory()
      const spool = new Spool(folder)
      await expect(writeArchive(spool, manifestOf(), [failing(at)])).rejects.toThrow('the disk is gone')
      await spool.dispose()
      await new Promise(setImmediate)
      expect(filesBelow(folder)).toEqual([])
    },
  )

  test('and a spool that fails, likewise', async () => {
    const spool = new Spool(tempDirectory())
    let written = 0
    spool.write = async (bytes) => {
      written += bytes.length
      if (written > 5_000_000) throw new Error('the disk is full')
    }
    const endless = {
      name: 'cell.db',
      size: 50_000_000,
      read: async (bytes: Buffer) => void randomFillSync(bytes),
    }
    await expect(writeArchive(spool, manifestOf(), [endless])).rejects.toThrow('the disk is full')
  })

  test('also while it waits to hear whether the database is sound', async () => {
    const spool = new Spool(tempDirectory())
    const asked = Promise.withResolvers<boolean>()
    let written = 0
    spool.write = async (bytes) => {
      written += bytes.length
      if (written < 3 * 1_048_576) return
      // All has been read by then.
      for (let turn = 0; turn < 50; turn++) await new Promise(setImmediate)
      throw new Error('the disk is full')
    }
    const members = [memberOf('cell.db', randomBytes(5 * 1_048_576))]
    const writing = writeArchive(spool, manifestOf(), members, { isSound: asked.promise })
    await expect(writing).rejects.toThrow('the disk is full')
  })

  test('or is cancelled, likewise', async () => {
    const folder = tempDirectory()
    const spool = new Spool(folder)
    const abort = new AbortController()
    const onProgress = (bytes: number) => {
      if (bytes > 20_000_000) abort.abort(new Error('enough'))
    }
    const endless = {
      name: 'cell.db',
      size: 50_000_000,
      read: async (bytes: Buffer) => void randomFillSync(bytes),
    }
    await expect(
      writeArchive(spool, manifestOf(), [endless], { signal: abort.signal, onProgress }),
    ).rejects.toThrow('enough')
    await spool.dispose()
    expect(filesBelow(folder)).toEqual([])
  })
})

describe('What no writer of ours makes is refused with backup_corrupt (invariant 10):', () => {
  test('an object that is empty, or no zstd', async () => {
    for (const bytes of [
      Buffer.alloc(0),
      Buffer.from('x'),
      Buffer.from('SQLite format 3\0'),
      randomBytes(5_000),
    ]) {
      expect(await refusal(bytes)).toMatchObject({ code: 'backup_corrupt' })
    }
  })

  test.runIf(HAS_TOOLS)('a tar in one block without a seek table', async () => {
    const archive = await archiveOf([memberOf('cell.db', content(1_000))])
    const plain = execFileSync('zstd', ['-dqc'], { input: archive })
    expect(await refusal(zlib.zstdCompressSync(plain))).toMatchObject({ details: { member: 'archive' } })
  })

  test('blocks without a tar in them', async () => {
    expect(await refusal(seekable([randomBytes(4_096)]))).toMatchObject({ details: { member: 'archive' } })
    expect(await refusal(seekable([Buffer.alloc(4_096)]))).toMatchObject({
      details: { member: 'checksums.json' },
    })
  })

  test('a tar whose members are cut short, in other order, twice there, or not listed', async () => {
    const manifest = Buffer.from(JSON.stringify(manifestOf()))
    const database = content(1_000)
    const sums = (...names: string[]) =>
      Buffer.from(
        JSON.stringify({
          members: names.map((name) => {
            const bytes = name === 'manifest.json' ? manifest : database
            return { name, size: bytes.length, sha256: createHash('sha256').update(bytes).digest('hex') }
          }),
        }),
      )
    const both = sums('manifest.json', 'cell.db')
    const cases: Record<string, [string, Buffer][]> = {
      'manifest.json': [
        ['cell.db', database],
        ['manifest.json', manifest],
        ['checksums.json', both],
      ],
      'checksums.json': [
        ['manifest.json', manifest],
        ['cell.db', database],
      ],
      'cell.db': [
        ['manifest.json', manifest],
        ['checksums.json', both],
      ],
      'wal-000001': [
        ['manifest.json', manifest],
        ['checksums.json', sums('manifest.json')],
        ['wal-000001', database],
      ],
    }
    for (const [member, members] of Object.entries(cases)) {
      expect(await refusal(seekable([await tarOf(members)]))).toMatchObject({
        code: 'backup_corrupt',
        details: { member },
      })
    }
    const twice = await tarOf([
      ['manifest.json', manifest],
      ['cell.db', database],
      ['cell.db', database],
      ['checksums.json', both],
    ])
    expect(await refusal(seekable([twice]))).toMatchObject({ details: { member: 'checksums.json' } })
    const other = await tarOf([
      ['manifest.json', manifest],
      ['cell.db', content(1_000)],
      ['checksums.json', both],
    ])
    expect(await refusal(seekable([other]))).toMatchObject({ message: expect.stringContaining('SHA-256') })
    const good = await tarOf([
      ['manifest.json', manifest],
      ['cell.db', database],
      ['checksums.json', both],
    ])
    expect(await refusal(seekable([good]))).toBeUndefined()
    for (const cut of [100, 512, 700, 1_500, good.length - 3_000]) {
      expect(await refusal(seekable([good.subarray(0, cut)]))).toMatchObject({ code: 'backup_corrupt' })
    }
  })

  test.each([
    ['no JSON', 'no JSON'],
    ['nothing', ''],
    ['another JSON', '[1, 2, 3]'],
    ['a manifest with a field missing', JSON.stringify({ ...manifestOf(), chain: undefined })],
    [
      'a manifest of another shape',
      JSON.stringify({ ...manifestOf(), wals: [{ name: '../../etc/passwd' }] }),
    ],
    ['null', 'null'],
  ])('%s as its manifest', async (_, text) => {
    const tar = await tarOf([
      ['manifest.json', Buffer.from(text)],
      ['checksums.json', Buffer.from('{"members":[]}')],
    ])
    expect(await refusal(seekable([tar]))).toMatchObject({
      code: 'backup_corrupt',
      details: { member: 'manifest.json' },
    })
    const head = seekable([tar])
    expect(await rejectedBy(readManifest(head, true))).toMatchObject({ code: 'backup_corrupt' })
  })

  test('a newer format, with the advice to update', async () => {
    const tar = await tarOf([['manifest.json', Buffer.from(JSON.stringify({ ...manifestOf(), format: 2 }))]])
    expect(await refusal(seekable([tar]))).toMatchObject({ message: expect.stringContaining('update') })
  })

  test('a block that claims or makes more than any block does', async () => {
    const skippable = Buffer.alloc(8)
    skippable.writeUInt32LE(0x184d2a50, 0)
    skippable.writeUInt32LE(0xffffffff, 4)
    const endless = (async function* () {
      yield skippable
      for (;;) yield Buffer.alloc(1_048_576)
    })()
    await expect(readArchive(endless, ignoreAll)).rejects.toMatchObject({ code: 'backup_corrupt' })
    const bomb = seekable([Buffer.alloc(BLOCK_BYTES + 1)])
    expect(await refusal(bomb)).toMatchObject({ code: 'backup_corrupt' })
  })
})

describe('What is not the archive’s fault stays what it is:', () => {
  test('an object store that fails in the middle', async () => {
    const archive = await archiveOf([memberOf('cell.db', content(9_000_000))])
    const down = new CellError('object_store_unavailable', 'gone')
    const broken = (async function* () {
      yield archive.subarray(0, 5_000_000)
      throw down
    })()
    await expect(readArchive(broken, ignoreAll)).rejects.toBe(down)
  })

  test('a disk that is full in the middle', async () => {
    const archive = await archiveOf([memberOf('cell.db', randomBytes(40_000_000))])
    const full = Object.assign(new Error('ENOSPC: no space left on device, write'), {
      code: 'ENOSPC',
      syscall: 'write',
    })
    let source = 0
    const counted = (async function* () {
      for await (const chunk of inChunks(archive, 65_536)) {
        source += chunk.length
        yield chunk
      }
    })()
    const sink = {
      manifest: () => {},
      member: (_: string, __: number, bytes: AsyncIterable<Buffer>) =>
        receive(bytes, () => {
          throw full
        }),
    }
    await expect(readArchive(counted, sink)).rejects.toBe(full)
    // It did not read on to the end for nothing.
    expect(source).toBeLessThan(archive.length)
  })
})

async function refusal(bytes: Buffer): Promise<unknown> {
  return readArchive(inChunks(bytes, 1_000), ignoreAll).then(
    () => undefined,
    (error) => error,
  )
}

async function tarOf(members: readonly [string, Buffer][]): Promise<Buffer> {
  const tar = pack()
  for (const [name, bytes] of members) tar.entry({ name }, bytes)
  tar.finalize()
  const chunks: Buffer[] = []
  for await (const chunk of tar as AsyncIterable<Buffer>) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** Blocks and their seek table, as the format describes them. */
function seekable(plain: readonly Buffer[]): Buffer {
  const blocks = plain.map((bytes) => zlib.zstdCompressSync(bytes))
  const entries = blocks.map((block, i) => {
    const entry = Buffer.alloc(8)
    entry.writeUInt32LE(block.length, 0)
    entry.writeUInt32LE((plain[i] as Buffer).length, 4)
    return entry
  })
  const header = Buffer.alloc(8)
  header.writeUInt32LE(0x184d2a5e, 0)
  header.writeUInt32LE(entries.length * 8 + 9, 4)
  const footer = Buffer.alloc(9)
  footer.writeUInt32LE(entries.length, 0)
  footer.writeUInt32LE(0x8f92eab1, 5)
  return Buffer.concat([...blocks, header, ...entries, footer])
}
