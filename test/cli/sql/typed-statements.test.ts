import { describe, expect, test } from 'vitest'
import { splitTyped } from '../../../src/cli/sql/shell.ts'

describe('what a person has typed', () => {
  test.each([
    ['SELECT 1;\n', ['SELECT 1'], ''],
    ['SELECT 1; SELECT 2\n', ['SELECT 1'], ' SELECT 2\n'],
    ['SELECT 1\n', [], 'SELECT 1\n'],
    ["SELECT 'a;\n", [], "SELECT 'a;\n"],
    ["SELECT 'a;\nb';\n", ["SELECT 'a;\nb'"], ''],
    ['SELECT "a;b", [c;d], `e;f`;\n', ['SELECT "a;b", [c;d], `e;f`'], ''],
    ['SELECT 1 -- no; end\n', [], 'SELECT 1 -- no; end\n'],
    ['SELECT 1 /* ; */;\n', ['SELECT 1 /* ; */'], ''],
    ['-- nothing;\n', [], ''],
    ['/* nothing; */\n', [], ''],
    ['/* not yet;\n', [], '/* not yet;\n'],
    ['SELECT 1; /* not yet;\n', ['SELECT 1'], ' /* not yet;\n'],
    ['\n', [], ''],
    [';;\n', [], ''],
    ['*\n', [], '*\n'],
  ])('%j: whole are %j, and %j is left', (text, whole, rest) => {
    expect(splitTyped(text)).toEqual({ whole, rest })
  })

  test('is a trigger only after its END', () => {
    const begun = 'CREATE TRIGGER t AFTER INSERT ON a BEGIN\n  DELETE FROM b;\n'
    expect(splitTyped(begun)).toEqual({ whole: [], rest: begun })
    expect(splitTyped(`${begun}END;\n`).whole).toHaveLength(1)
  })
})
