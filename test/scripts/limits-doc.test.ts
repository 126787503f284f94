import ts from 'typescript'
import { describe, expect, test } from 'vitest'
import { FIXED, limitsDocument } from '../../scripts/limits-doc.ts'
import { LIMITS } from '../../src/cli/serve/limits/limits.ts'
import { readProjectFile, readSources, walk } from '../architecture/source.ts'

test('docs/limits.md is what the code makes; if not, run `npm run limits`', () => {
  expect(readProjectFile('docs/limits.md')).toBe(limitsDocument())
})

describe('The errors of limits', () => {
  const messages = new Set<string>()
  for (const { ast, path } of readSources(['src'])) {
    if (path.startsWith('src/cli/')) continue
    walk(ast, (node) => {
      if (ts.isStringLiteralLike(node) || ts.isTemplateExpression(node)) messages.add(node.getText(ast))
    })
  }
  const text = [...messages].join('\n')
  const groups: [string, Record<string, { over: string }>][] = [
    ...Object.entries(LIMITS),
    ...Object.entries(FIXED),
  ]
  const rows = groups.flatMap(([group, limits]) =>
    Object.entries(limits).map(([setting, { over }]) => ({ setting: `${group}.${setting}`, over })),
  )

  test.each(rows.filter(({ over }) => /`[a-z]+_[a-z_]+`|`busy`/.test(over)))(
    'name $setting',
    ({ setting }) => {
      const [group, member] = setting.split('.')
      // account-quotas.ts puts the name of a quota together.
      const isNamed = text.includes(setting) || (group === 'quotas' && text.includes(`'${member}'`))
      expect(isNamed).toBe(true)
    },
  )
})
