import { describe, expect, test } from 'vitest'
import { buildProgram } from '../../src/cli/program.ts'
import { reportError } from '../../src/cli/terminal/report-error.ts'
import { CellError } from '../../src/errors.ts'

/** What commander makes of a wrong command line, as it is told. */
async function usage(args: string[], json = false) {
  const program = buildProgram()
  const error = await program.parseAsync(args, { from: 'user' }).then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return reportError(error, json)
}

describe('what a failed command says', () => {
  test('of a setting ends with 2, wherever it was found', () => {
    const error = new CellError('invalid_setting', 'limits.keyBytesMax must be a whole number above 0.')
    expect(reportError(error, false).exitCode).toBe(2)
    expect(reportError(error, true).exitCode).toBe(2)
  })

  test('is a sentence, and the exit code is 1', () => {
    const error = new CellError('cell_not_found', 'There is no such cell.')
    expect(reportError(error, false)).toEqual({ exitCode: 1, text: 'cellstore: There is no such cell.\n' })
    expect(reportError(error, true)).toEqual({
      exitCode: 1,
      text: '{"code":"cell_not_found","message":"There is no such cell."}\n',
    })
  })

  test('names what was behind it: whoever runs the command may know', () => {
    const error = new CellError('object_store_unavailable', 'Nobody answers.', {
      cause: new Error('connect ECONNREFUSED 127.0.0.1:1'),
    })
    expect(reportError(error, false).text).toBe(
      'cellstore: Nobody answers. (connect ECONNREFUSED 127.0.0.1:1)\n',
    )
  })

  test("shows the operating system's words as they are, and of a bug where it happened", () => {
    const denied = Object.assign(new Error("EACCES: permission denied, mkdir '/x'"), { syscall: 'mkdir' })
    expect(reportError(denied, false).text).toBe("cellstore: EACCES: permission denied, mkdir '/x'.\n")
    expect(reportError(new TypeError('oops'), false).text).toMatch(/TypeError: oops\n\s+at /)
    expect(reportError(new TypeError('oops'), true).text).toBe('{"code":"internal","message":"oops"}\n')
  })

  test('writes out what a terminal would obey: a message can quote tenants', () => {
    const raised = new CellError('constraint_violation', 'no\u001b[2J\u009b31m')
    expect(reportError(raised, false).text).toBe('cellstore: no\\x1b[2J\\x9b31m\n')
    expect(reportError(new TypeError('oops\u0007'), false).text).toMatch(/oops\\x07\n\s+at /)
  })

  test('never shows a key (invariant 12)', () => {
    const key = `cell_sk_${'x'.repeat(49)}`
    expect(reportError(new Error(`bad ${key}`), false).text).not.toContain('xxxx')
  })

  test.each([
    [['no-such-command'], /unknown command 'no-such-command'/],
    [['keys', 'creat'], /unknown command 'creat'.*Did you mean create\?/],
    [['cell', 'list'], /unknown command 'cell'.*Did you mean cells\?/],
    [['creat'], /unknown command 'creat'\. See/],
    [['help', 'cells', 'exprt'], /unknown command 'exprt'.*Did you mean export\?/],
    [['sql'], /missing required argument 'cell'.* See `cellstore help sql`\./],
    [['keys', 'create', '--read'], /unknown option '--read'.* See `cellstore help keys create`\./],
    [['--read'], /unknown option '--read'.* See `cellstore help`\./],
    [['backups', 'x'], /unknown command 'x'.* See `cellstore help backups`\./],
    [['sql', 'x', 'SELECT 1', '--file', 'x.sql'], /a statement or --file, not both/],
    [['sql', 'x', '--file', 'x.sql', '--text'], /parameters go with a statement/],
    [['sql', 'x', 'SELECT 1', '--csv', '--json'], /--json or --csv, not both/],
    [['keys', 'list', '--jsn'], /unknown option '--jsn'.*Did you mean --json\?/],
    [['serve', '--port', '70000'], /--port.*70000.*from 0 to 65535/],
    [['serve', '--drain', '5'], /--drain.*with its unit/],
    [['serve', '--max-lag', '2h'], /--max-lag.*from 1s to 1h, or off\./],
    [['serve', '--max-lag', 'never'], /--max-lag.*from 1s to 1h, or off\./],
    [['serve', '--drill-every', 'off'], /--drill-every.*with its unit: 30s, .*, or never\./],
    [['serve', '--slow', '1.5s'], /--slow.*such as 250ms, .*, or never\./],
    [['serve', '--log-level', 'loud'], /--log-level.*loud.*silent, error/],
    [['sql', 'x', 'SELECT ?', '1', '--json-params', '[1]'], /not both/],
    [['backups', 'verify'], /name a cell, or use --all/],
    [['backups', 'verify', 'x', '--all'], /name a cell, or use --all/],
    [['backups', 'verify', '--all', '--version', 'x'], /--version goes with one cell/],
    [['backups', 'prune'], /name a cell, or use --all/],
    [['sql', 'x', 'SELECT ?', '--json-params', '[1'], /--json-params takes a JSON list/],
  ])('of a wrong command line, %j, is one line, and the exit code is 2', async (args, sentence) => {
    const { exitCode, text } = await usage(args)
    expect(exitCode).toBe(2)
    expect(text).toMatch(sentence)
    expect(text).toMatch(/^cellstore: .*\n$/)
    const report = await usage(args, true)
    expect(JSON.parse(report.text)).toEqual({
      code: expect.stringMatching(/^invalid_(request|setting)$/),
      message: expect.stringMatching(sentence),
    })
  })
})
