import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import packageJson from '../../package.json' with { type: 'json' }
import { PROJECT, run, shellEnv } from '../support/package/run.ts'

const BUILD_TIMEOUT_MS = 180_000

// As from a shell: npm runs on the machine's own Node, however old, and the scripts on the one in devDependencies.
beforeAll(async () => {
  const { code, stderr } = await run('node', ['scripts/build-if-needed.mjs'], {
    cwd: PROJECT,
    timeoutMs: BUILD_TIMEOUT_MS,
  })
  expect({ code, stderr }).toMatchObject({ code: 0 })
}, BUILD_TIMEOUT_MS)

describe('npm run --silent cellstore', () => {
  const command = (...args: string[]) =>
    run('npm', ['run', '--silent', 'cellstore', '--', ...args], { cwd: PROJECT })

  test('prints what the command prints and nothing else', async () => {
    const { code, stdout } = await command('--version')
    expect({ code, stdout }).toEqual({ code: 0, stdout: `${packageJson.version}\n` })
  })

  test('can be taken into a variable: keys generate', async () => {
    const { code, stdout } = await command('keys', 'generate')
    expect({ code, stdout }).toEqual({
      code: 0,
      stdout: expect.stringMatching(/^cell_sk_[0-9A-Za-z]{49}\n$/),
    })
  })

  test('hands on the exit code', async () => {
    const { code, stdout, stderr } = await command('no-such-command')
    expect(code).toBeGreaterThan(0)
    expect(stdout).toBe('')
    expect(stderr).toMatch(/no-such-command/)
  })
})

describe('npm start', () => {
  let folder: string
  let npm: ChildProcess | undefined
  beforeEach(() => {
    folder = fs.mkdtempSync(path.join(os.tmpdir(), 'cellstore-npm-start-'))
  })
  afterEach(() => {
    if (npm?.pid !== undefined) killGroup(npm.pid)
    npm = undefined
    fs.rmSync(folder, { recursive: true, force: true })
  })

  test.each([
    { reaches: 'npm alone', sign: 1 },
    { reaches: 'the whole process group', sign: -1 },
  ])('serves, and ends with 0 when SIGTERM reaches $reaches', async ({ sign }) => {
    const settings = {
      CELLSTORE_DATA_DIR: path.join(folder, 'data'),
      CELLSTORE_OBJECT_STORE: pathToFileURL(path.join(folder, 'objects')).href,
    }
    const env = { ...shellEnv(), ...settings }
    npm = spawn('npm', ['start', '--', '--port', '0'], { cwd: PROJECT, env, detached: true, stdio: 'pipe' })
    const ended = once(npm, 'exit')

    const address = await printed(npm, /http:\/\/127\.0\.0\.1:[1-9]\d*/)
    expect((await fetch(`${address}/healthz`)).status).toBe(200)

    process.kill(sign * (npm.pid as number), 'SIGTERM')
    expect(await ended).toEqual([0, null])
    await expect(fetch(`${address}/healthz`)).rejects.toThrow()
  })
})

/** So that no server outlives a failed test, even where npm itself is gone. */
function killGroup(leader: number): void {
  try {
    process.kill(-leader, 'SIGKILL')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** Waits until a process has printed something. */
function printed(child: ChildProcess, pattern: RegExp): Promise<string> {
  return new Promise((resolve, reject) => {
    let output = ''
    const look = (chunk: Buffer) => {
      output += chunk
      const found = pattern.exec(output)
      if (found !== null) resolve(found[0])
    }
    child.stdout?.on('data', look)
    child.stderr?.on('data', look)
    child.once('exit', (code, signal) => reject(new Error(`It ended with ${code ?? signal}:\n${output}`)))
  })
}
