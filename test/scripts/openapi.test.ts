import { expect, test } from 'vitest'
import { generatedFiles } from '../../scripts/openapi.ts'
import { readProjectFile } from '../architecture/source.ts'

test('the OpenAPI document and the client’s types are what the code makes; if not, run `npm run openapi`', async () => {
  for (const [file, text] of Object.entries(await generatedFiles())) {
    expect(readProjectFile(file) === text, `${file} is stale: run \`npm run openapi\``).toBe(true)
  }
})
