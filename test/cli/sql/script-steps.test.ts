import { describe, expect, test } from 'vitest'
import { stepsOf } from '../../../src/cli/sql/script-steps.ts'
import { codeOf } from '../../support/thrown.ts'

const shape = (script: string) =>
  stepsOf(script).map(({ statements, isTransaction }) =>
    isTransaction ? statements.map(({ sql }) => sql) : statements[0]?.sql,
  )

describe('the steps of a script', () => {
  test('are its statements, and all between BEGIN and COMMIT at once', () => {
    expect(shape('SELECT 1; BEGIN; SELECT 2; SELECT 3; COMMIT; SELECT 4')).toEqual([
      'SELECT 1',
      ['SELECT 2', 'SELECT 3'],
      'SELECT 4',
    ])
    expect(shape('begin immediate transaction;SELECT 1;end transaction;')).toEqual([['SELECT 1']])
  })

  test('leave out what is rolled back, and what is empty', () => {
    expect(shape('BEGIN; SELECT 1; ROLLBACK; ;;BEGIN; COMMIT; -- nothing\n')).toEqual([])
  })

  test("take no word in a literal, a comment or a trigger's body for an end", () => {
    const trigger = `CREATE TRIGGER t AFTER INSERT ON a BEGIN SELECT 'COMMIT;'; END`
    expect(shape(`${trigger}; BEGIN; SELECT ';' /* COMMIT; */; COMMIT`)).toEqual([
      trigger,
      ["SELECT ';' /* COMMIT; */"],
    ])
  })

  test('pass on what a cell refuses: savepoints, EXPLAIN BEGIN, a COMMIT without BEGIN', () => {
    expect(shape('BEGIN; SAVEPOINT a; ROLLBACK TO a; COMMIT')).toEqual([['SAVEPOINT a', 'ROLLBACK TO a']])
    expect(shape('EXPLAIN BEGIN; COMMIT')).toEqual(['EXPLAIN BEGIN', 'COMMIT'])
  })

  test('know the number and the line of each statement', () => {
    const [first, second] = stepsOf('SELECT 1;\n\n-- two\nBEGIN;\n  SELECT 2;\nCOMMIT')
    expect(first?.statements).toMatchObject([{ number: 1, line: 1 }])
    expect(second?.statements).toMatchObject([{ number: 3, line: 5 }])
  })

  test('are none at all if a transaction has no end', () => {
    expect(codeOf(() => stepsOf('SELECT 1;\nBEGIN; SELECT 2;'))).toBe('invalid_request')
    expect(() => stepsOf('SELECT 1;\nBEGIN; SELECT 2;')).toThrow(/statement 2, at line 2, has no COMMIT/)
  })
})
