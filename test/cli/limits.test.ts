import { Command } from 'commander'
import { describe, expect, test, vi } from 'vitest'
import { dropUnsetVariables, VARIABLES } from '../../src/cli/environment.ts'
import { type LimitRow, memberOf, spell, variableOf } from '../../src/cli/serve/limits/limit-row.ts'
import { LIMIT_ROWS, LIMITS, limitsFrom } from '../../src/cli/serve/limits/limits.ts'
import { addServeFlags } from '../../src/cli/serve/serve-flags.ts'
import { reportError } from '../../src/cli/terminal/report-error.ts'
import { resolveSettings } from '../../src/store/settings/settings.ts'

/** What the flags of `serve` come to. */
function read(args: string[], environment: Record<string, string> = {}) {
  for (const [name, value] of Object.entries(environment)) vi.stubEnv(name, value)
  try {
    dropUnsetVariables(process.env)
    const command = addServeFlags(new Command('serve').exitOverride().configureOutput({ writeErr: () => {} }))
    command.parse(args, { from: 'user' })
    return limitsFrom(command.opts())
  } finally {
    vi.unstubAllEnvs()
  }
}

function refusalOf(args: string[]): unknown {
  try {
    read(args)
  } catch (error) {
    return error
  }
  throw new Error(`${args.join(' ')} was taken`)
}

describe('The limits of a node', () => {
  test('are the defaults of the code without flags', () => {
    const values = read([])
    for (const [group, rows] of Object.entries(LIMITS)) {
      const defaults = Object.entries<LimitRow>(rows).filter(([, row]) => row.default !== undefined)
      expect(values[group as keyof typeof values]).toEqual(
        Object.fromEntries(defaults.map(([setting, row]) => [setting, row.default])),
      )
    }
    expect(() =>
      resolveSettings({ limits: values.limits, quotas: values.quotas, ...values.store }),
    ).not.toThrow()
  })

  test('have flags and variables of their own, which no other setting has', () => {
    expect(new Set(LIMIT_ROWS.map(memberOf)).size).toBe(LIMIT_ROWS.length)
    expect(new Set(VARIABLES).size).toBe(VARIABLES.length)
    expect(VARIABLES).toEqual(expect.arrayContaining(LIMIT_ROWS.map(variableOf)))
  })

  test.each(LIMIT_ROWS.map((row) => [row.flag, row] as const))(
    '--%s takes its smallest value and its largest, and its variable too',
    (flag, row) => {
      const { min = 1, max = Number.MAX_SAFE_INTEGER } = row
      const values = (all: object) => Object.values(all).flatMap((each) => Object.values(each as object))
      for (const value of [min, Math.min(max, 1_000_000 * (row.unit === 'duration' ? 60 : 1_048_576))]) {
        const text = spell(row, value)
        expect(values(read([`--${flag}`, text]))).toContain(value)
        expect(read([], { [variableOf(row)]: text })).toEqual(read([`--${flag}`, text]))
      }
      expect(read([], { [variableOf(row)]: '' })).toEqual(read([]))
    },
  )

  test.each(LIMIT_ROWS.map((row) => [row.flag, row] as const))(
    '--%s out of its range ends the command with 2, and a sentence that says the range',
    (flag, row) => {
      const { min = 1, max } = row
      const wrong = ['', 'x', '-1', '1.5', '0', '1 MiB', '1e3']
      if (max !== undefined) wrong.push(spell(row, max + (row.unit === 'mebibytes' ? 1_048_576 : 1)))
      for (const text of wrong) {
        const { exitCode, text: sentence } = reportError(refusalOf([`--${flag}=${text}`]), false)
        expect({ text, exitCode }).toEqual({ text, exitCode: 2 })
        expect(sentence).toContain(`--${flag}`)
        expect(sentence).toContain(`from ${spell(row, min)}`)
        if (max !== undefined) expect(sentence).toContain(`to ${spell(row, max)}`)
      }
    },
  )

  test('are spelled with units, and sizes without one are bytes', () => {
    const { limits, workers, http } = read([
      '--cell-bytes',
      '2GiB',
      '--value-bytes',
      '4096',
      '--wal-bytes',
      '2KiB',
      '--worker-memory',
      '512',
      '--wait',
      '40ms',
      '--statement-timeout',
      '2m',
    ])
    expect(limits).toMatchObject({ cellBytesMax: 2 ** 31, valueBytesMax: 4_096, walBytesMax: 2_048 })
    expect(workers).toEqual({ memoryMax: 2 ** 29 })
    expect(http).toMatchObject({ requestDeadlineMs: 40, statementMsMax: 120_000 })
  })
})
