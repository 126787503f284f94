import path from 'node:path'
import ts from 'typescript'
import { expect, test } from 'vitest'
import { type DocumentedArgument, documentedArguments } from '../support/client/documented-arguments.ts'

const ROOT = path.join(import.meta.dirname, '..', '..')
const CLIENT = path.join(ROOT, 'src/client/index.ts')
const CHECK_TIMEOUT_MS = 60_000

/** The lines that TypeScript refuses of a program that has a client, `cells`; counted from 0. */
function refusedLines(lines: readonly string[], exactOptionalPropertyTypes: boolean): Set<number> {
  const file = path.join(ROOT, 'test/client/as-a-program-writes-them.ts')
  const head = `import type { Client } from ${JSON.stringify(CLIENT)}; declare const cells: Client`
  const text = [head, ...lines].join('\n')
  const { config } = ts.readConfigFile(path.join(ROOT, 'tsconfig.json'), ts.sys.readFile)
  const { options } = ts.convertCompilerOptionsFromJson(config.compilerOptions, ROOT)
  Object.assign(options, { exactOptionalPropertyTypes, noUnusedLocals: false })
  const host = ts.createCompilerHost(options)
  const { getSourceFile } = host
  host.getSourceFile = (name, version) =>
    name === file ? ts.createSourceFile(name, text, version) : getSourceFile(name, version)
  const program = ts.createProgram([file], options, host)
  const source = program.getSourceFile(file) as ts.SourceFile
  const found = [...program.getSyntacticDiagnostics(source), ...program.getSemanticDiagnostics(source)]
  return new Set(found.map(({ start = 0 }) => source.getLineAndCharacterOfPosition(start).line - 1))
}

const VALUE = '"the value"'

/** A call with an expression as the value of this argument, on a line of its own. */
function lineOf({ operation, with: make }: DocumentedArgument, expression: string, rename = ''): string {
  const json = JSON.stringify(make(JSON.parse(VALUE)))
  const args = json.replace(/"(\w+)":"the value"/, (_, name) => `"${name}${rename}": ${expression}`)
  return `void (() => cells.${operation}(${args}))`
}

test.each([true, false])(
  'the types refuse what is undefined and guards, and unknown names; exactOptionalPropertyTypes: %s',
  (exact) => {
    const tries = documentedArguments().flatMap((each) => [
      { line: lineOf(each, 'undefined'), isRefused: !each.isFree || each.isRequired },
      { line: lineOf(each, '1', 'x'), isRefused: true },
      { line: lineOf(each, '1 as never'), isRefused: false },
    ])
    const refused = refusedLines(
      tries.map(({ line }) => line),
      exact,
    )
    const wrong = tries.filter(({ isRefused }, i) => refused.has(i) !== isRefused)
    expect(wrong.map(({ line, isRefused }) => `${isRefused ? 'taken' : 'refused'}: ${line}`)).toEqual([])
  },
  CHECK_TIMEOUT_MS,
)
