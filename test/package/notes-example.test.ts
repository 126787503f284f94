import fs from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { LinkedProject } from '../support/package/linked-project.ts'
import { PROJECT } from '../support/package/run.ts'

vi.setConfig({ hookTimeout: 200_000 })

const FOLDER = path.join(PROJECT, 'examples', 'notes')

const project = new LinkedProject(['hono', '@hono/node-server', '@types/node'])
beforeAll(async () => {
  await LinkedProject.build()
  for (const file of fs.readdirSync(FOLDER))
    project.write(file, fs.readFileSync(path.join(FOLDER, file), 'utf8'))
})
afterAll(() => project.remove())

test('the tests of the notes example pass', async () => {
  const { code, stdout } = await project.node(['--test', 'notes.test.ts'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: expect.stringMatching(/pass 3\n/) })
})

test('the types of the notes example are right, as strictly as a user may ask', async () => {
  const { code, stdout } = await project.checkTypes(['*.ts'])
  expect({ code, stdout }).toEqual({ code: 0, stdout: '' })
})
