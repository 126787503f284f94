import { expect, test } from 'vitest'
import { limitsDocument } from '../../scripts/limits-doc.ts'
import { readProjectFile } from '../architecture/source.ts'

test('docs/limits.md is what the code makes; if not, run `npm run limits`', () => {
  expect(readProjectFile('docs/limits.md')).toBe(limitsDocument())
})
