import type { SqlTokens } from './sql-lexer.ts'
import { readPragma } from './sql-pragma.ts'
import type { SqlStatement } from './sql-statement.ts'
import { asciiUpper, nameOf, wholeNameOf } from './sql-token.ts'

/** A whole statement that a connection carries out without SQLite's parser. */
export type ControlStatement =
  | { control: 'begin'; readOnly: boolean }
  | { control: 'commit' | 'rollback' }
  /** Names are in lower case: SQLite compares them so. */
  | { control: 'savepoint' | 'release' | 'rollback to'; name: string }
  /** `PRAGMA foreign_keys`. @param isOn undefined: it asks */
  | { control: 'foreign keys'; isOn: boolean | undefined }

/** libSQL has the last one: a transaction that changes nothing. */
const BEGIN_MODES: ReadonlySet<string> = new Set([
  'DEFERRED',
  'IMMEDIATE',
  'EXCLUSIVE',
  'CONCURRENT',
  'READONLY',
])
const ON: ReadonlySet<string> = new Set(['1', 'on', 'yes', 'true'])
const OFF: ReadonlySet<string> = new Set(['0', 'off', 'no', 'false'])

/**
 * Reads a statement that begins or ends a transaction or a savepoint, or sets or asks for `foreign_keys`.
 *
 * @returns undefined for any other text, and for what only begins like one
 */
export function controlOf(statement: SqlStatement): ControlStatement | undefined {
  const { explain, verb, verbIndex } = statement.head
  if (explain) return undefined
  switch (verb) {
    case 'BEGIN':
    case 'COMMIT':
    case 'END':
    case 'ROLLBACK':
    case 'SAVEPOINT':
    case 'RELEASE':
    case 'PRAGMA':
      return read(statement.takeTokens(), verb, verbIndex)
    default:
      return undefined
  }
}

function read(tokens: SqlTokens, verb: string, first: number): ControlStatement | undefined {
  const at = first + 1
  switch (verb) {
    case 'BEGIN': {
      const mode = asciiUpper(tokens.at(at)?.text ?? '')
      const behindMode = BEGIN_MODES.has(mode) ? at + 1 : at
      const behindWord = skipWord(tokens, behindMode, 'TRANSACTION')
      const isLast = tokens.is(behindWord, 'READONLY') && behindMode === at
      const readOnly = mode === 'READONLY' || isLast
      return atEnd(tokens, isLast ? behindWord + 1 : behindWord, { control: 'begin', readOnly })
    }
    case 'COMMIT':
    case 'END':
      return atEnd(tokens, skipWord(tokens, at, 'TRANSACTION'), { control: 'commit' })
    case 'ROLLBACK': {
      const to = skipWord(tokens, at, 'TRANSACTION')
      if (!tokens.is(to, 'TO')) return atEnd(tokens, to, { control: 'rollback' })
      return named(tokens, skipWord(tokens, to + 1, 'SAVEPOINT'), 'rollback to')
    }
    case 'SAVEPOINT':
      return named(tokens, at, 'savepoint')
    case 'RELEASE':
      return named(tokens, skipWord(tokens, at, 'SAVEPOINT'), 'release')
    default:
      return foreignKeys(tokens, first)
  }
}

function named(
  tokens: SqlTokens,
  at: number,
  control: 'savepoint' | 'release' | 'rollback to',
): ControlStatement | undefined {
  const name = wholeNameOf(tokens.at(at))
  return name === undefined ? undefined : atEnd(tokens, at + 1, { control, name })
}

function foreignKeys(tokens: SqlTokens, first: number): ControlStatement | undefined {
  const { name, nameIndex, isSet } = readPragma(tokens, first)
  const isMain = nameIndex === first + 1 || nameOf(tokens.at(first + 1)) === 'main'
  if (name !== 'foreign_keys' || !isMain) return undefined
  if (!isSet) return atEnd(tokens, nameIndex + 1, { control: 'foreign keys', isOn: undefined })
  const token = tokens.at(nameIndex + 2)
  const value = nameOf(token) ?? token?.text ?? ''
  if (!ON.has(value) && !OFF.has(value)) return undefined
  const behind = tokens.is(nameIndex + 1, '(') ? nameIndex + 4 : nameIndex + 3
  return atEnd(tokens, behind, { control: 'foreign keys', isOn: ON.has(value) })
}

function skipWord(tokens: SqlTokens, at: number, word: string): number {
  return tokens.is(at, word) ? at + 1 : at
}

/** @returns undefined if more than semicolons follows */
function atEnd(tokens: SqlTokens, at: number, statement: ControlStatement): ControlStatement | undefined {
  let end = at
  while (tokens.is(end, ';')) end++
  return tokens.at(end) === undefined ? statement : undefined
}
