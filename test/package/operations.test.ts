import fs from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { parsePlan } from '../../src/backup/versions/retention/retention-plan.ts'
import { VARIABLES } from '../../src/cli/environment.ts'
import { buildProgram } from '../../src/cli/program.ts'
import { blocksOf } from '../support/package/page-programs.ts'
import { PROJECT, run } from '../support/package/run.ts'
import { tempDirectory } from '../support/temp-directory.ts'

const PAGE = 'docs/operations.md'
const DEPLOYMENT = fs
  .globSync('deploy/**/*', { cwd: PROJECT })
  .filter((file) => fs.statSync(path.join(PROJECT, file)).isFile())
/** What an S3 has to allow for each request of AWS's client. */
const ACTIONS: Readonly<Record<string, readonly string[]>> = {
  headObject: ['s3:GetObject'],
  getObject: ['s3:GetObject'],
  headBucket: ['s3:ListBucket'],
  listObjectsV2: ['s3:ListBucket'],
  listMultipartUploads: ['s3:ListBucketMultipartUploads'],
  deleteObject: ['s3:DeleteObject'],
  putObject: ['s3:PutObject'],
  abortMultipartUpload: ['s3:AbortMultipartUpload'],
}

describe(PAGE, () => {
  test('names only plans that are plans, and the default one first', () => {
    const plans = [...read(PAGE).matchAll(/^\| `([^`]+)`.*\|.*\|.*\|$/gm)].map(([, plan = '']) => plan)
    const named = plans.filter((plan) => plan.startsWith('all:'))
    expect(named.map((plan) => parsePlan(plan)).length).toBeGreaterThan(3)
    expect(named[0]).toBe(optionOf('serve', '--keep')?.defaultValue)
  })

  test('allows in its policy exactly the requests that the code sends to S3', () => {
    const sources = fs.globSync('src/backup/object-store/s3/*.ts', { cwd: PROJECT }).map(read).join('\n')
    const sent = new Set([...sources.matchAll(/\bs3\.(\w+)\(/g)].map(([, request = '']) => request))
    // `send` repeats a request of the multipart upload, which is a put to S3.
    sent.delete('send')
    const needed = [...sent].flatMap((request) => ACTIONS[request] ?? [`unknown request ${request}`])
    expect([...new Set(needed)].sort()).toEqual(allowedActions().sort())
  })

  test('has the Caddyfile of deploy/', () => {
    const [shown] = blocksOf(PAGE).filter((block) => block.includes('reverse_proxy'))
    const plain = read('deploy/Caddyfile')
      .replace(/^\s*#.*\n/gm, '')
      .replace(/\{\$DOMAIN:[^}]*\}/, 'cells.example.com')
      .replace(/\{\$UPSTREAM:([^}]*)\}/, '$1')
    expect(shown).toBe(plain)
  })

  test('has seen nothing that docs/promises.md has not', () => {
    const [sizing = ''] = /^## Sizing$.*?(?=^## )/ms.exec(read(PAGE)) ?? []
    const seen = [...sizing.matchAll(/\bseen\b(.*)/gi)].flatMap(
      ([, text = '']) => text.match(/\d[\d.,]*\d|\d/g) ?? [],
    )
    const measured = new Set(read('docs/promises.md').match(/\d[\d.,]*\d|\d/g))
    expect(seen.filter((figure) => !measured.has(figure))).toEqual([])
    expect(seen.length).toBeGreaterThan(15)
  })

  test('names only flags that exist', () => {
    // `--silent` is npm's own.
    const page = read(PAGE).replace('`npm run --silent cellstore --`', '')
    const named = [...page.matchAll(/(?<![\w-])--[a-z][a-z-]+/g)].map(([flag]) => flag)
    expect([...new Set(named)].filter((flag) => !flagsOfCellstore().has(flag))).toEqual([])
    expect(named.length).toBeGreaterThan(10)
  })
})

test.each([PAGE, ...DEPLOYMENT])('%s names only variables that exist', (file) => {
  const named = new Set([...read(file).matchAll(/\bCELLSTORE_[A-Z_]*[A-Z]\b/g)].map(([name]) => name))
  expect([...named].filter((name) => !VARIABLES.includes(name))).toEqual([])
})

describe.each(['deploy/cellstore.service', 'deploy/cluster/cellstore.service'])('the unit %s', (file) => {
  const unit = read(file)

  test('starts the file that the package has for its command, as its own user', () => {
    expect(unit).toContain(`/node_modules/cellstore/${packageJson.bin.cellstore.replace('./', '')} serve\n`)
    expect(unit).toMatch(/^User=cellstore$/m)
  })

  test.skipIf(!fs.existsSync('/usr/bin/systemd-analyze'))('is one that systemd takes', async () => {
    const folder = tempDirectory('cellstore-unit')
    const copy = path.join(folder, 'cellstore.service')
    fs.writeFileSync(copy, unit.replace('/usr/bin/node', process.execPath))
    const { code, stderr } = await run('systemd-analyze', ['verify', copy], { cwd: folder })
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })
})

test('a node of a cluster is as confined as one that is alone', () => {
  const [alone, among] = ['deploy/cellstore.service', 'deploy/cluster/cellstore.service'].map((file) =>
    read(file).match(/^(Capability|Ambient|NoNew|Lock|Private|Protect|Remove|Restrict\w+=|SystemCall).*$/gm),
  )
  expect(among).toEqual(alone)
  expect(alone?.length).toBeGreaterThan(15)
})

describe('the Containerfile', () => {
  const instructions = read('deploy/Containerfile')
    .replace(/^#.*\n/gm, '')
    .replaceAll('\\\n', ' ')
    .split('\n')
    .filter((line) => line !== '')

  test('has instructions only, and its lists are JSON', () => {
    const KNOWN =
      /^(ARG|FROM|WORKDIR|COPY|RUN|USER|ENV|VOLUME|EXPOSE|HEALTHCHECK|STOPSIGNAL|ENTRYPOINT|CMD) \S/
    expect(instructions.filter((line) => !KNOWN.test(line))).toEqual([])
    const lists = instructions.flatMap((line) => /\[.*\]$/.exec(line) ?? [])
    expect(lists.map((list) => JSON.parse(list) as unknown)).toHaveLength(3)
  })

  test('runs serve as no root, with a health check and a Node.js that is new enough', () => {
    expect(instructions.at(-1)).toBe('CMD ["serve"]')
    expect(instructions).toContain('USER 10001:10001')
    expect(instructions.find((line) => line.startsWith('HEALTHCHECK'))).toContain('/healthz')
    expect(instructions[0]).toMatch(/node:24-/)
  })
})

function allowedActions(): string[] {
  const [policy = ''] = blocksOf(PAGE).filter((block) => block.includes('"Statement"'))
  const { Statement } = JSON.parse(policy) as { Statement: { Action: string[] }[] }
  return Statement.flatMap(({ Action }) => Action)
}

function flagsOfCellstore(): Set<string> {
  const flags = new Set(['--help'])
  const visit = (command: ReturnType<typeof buildProgram>) => {
    for (const { long } of command.options) if (long != null) flags.add(long)
    command.commands.forEach(visit)
  }
  visit(buildProgram())
  return flags
}

function optionOf(command: string, flag: string) {
  return buildProgram()
    .commands.find((each) => each.name() === command)
    ?.options.find(({ long }) => long === flag)
}

function read(file: string): string {
  return fs.readFileSync(path.join(PROJECT, file), 'utf8')
}
