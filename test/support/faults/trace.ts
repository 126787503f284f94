import fs from 'node:fs'
import readline from 'node:readline'

/** A system call that strace has recorded. */
export interface Call {
  name: string
  thread: string
  args: Argument[]
  /** What it returned; -1 for an error. */
  result: number
  errno: string | undefined
  /** Its place among all beginnings and ends: what ended before another began is surely done by then. */
  began: number
  ended: number
}

/** Text in quotes is bytes; everything else stays as strace shows it, as `4096` or `O_RDWR|O_CREAT`. */
export type Argument = { text: string; bytes?: Buffer }

const LINE = /^(\d+) +(.*)$/s
const CLOSING = /^close\((\d+)/
/** An end, a signal; and of a thread that was killed strace may not know any more in which call it was. */
const NO_CALL = ['+++', '---', '???(']
const RESUMED = /^<\.\.\. (\w+|\?\?\?) resumed>(.*)$/s
const UNFINISHED = ' <unfinished ...>'
const WHOLE = /^(\w+)\((.*)\) += (-?\d+|\?)(?:<[^>]*>)?(?: (E[A-Z0-9]+))?.*$/s

/** The calls of a trace in the order in which they ended, but a close as it begins; one that never ended is not there. */
export async function* readTrace(file: string): AsyncGenerator<Call> {
  const open = new Map<string, { text: string; began: number }>()
  let place = 0
  for await (const line of readline.createInterface({ input: fs.createReadStream(file) })) {
    const [, thread = '', rest = ''] = LINE.exec(line) ?? []
    if (rest === '' || NO_CALL.some((start) => rest.startsWith(start))) continue
    place++
    // Its number can be another file's before the call has ended.
    const closing = CLOSING.exec(rest)
    if (closing !== null) {
      const args = [{ text: closing[1] ?? '' }]
      yield { name: 'close', thread, args, result: 0, errno: undefined, began: place, ended: place }
      continue
    }
    if (rest.startsWith('<... close resumed>')) continue
    if (rest.endsWith(UNFINISHED)) {
      open.set(thread, { text: rest.slice(0, -UNFINISHED.length), began: place })
      continue
    }
    const resumed = RESUMED.exec(rest)
    const start = resumed === null ? { text: '', began: place } : open.get(thread)
    if (start === undefined && resumed?.[1] === '???') continue
    if (start === undefined) throw new Error(`A call goes on that never began: ${rest.slice(0, 200)}`)
    open.delete(thread)
    const text = start.text + (resumed?.[2] ?? rest)
    const [, name, args, result, errno] = WHOLE.exec(text) ?? []
    if (name === undefined || args === undefined) throw new Error(`Not understood: ${text.slice(0, 200)}`)
    yield {
      name,
      thread,
      args: splitArguments(args),
      result: Number(result),
      errno,
      began: start.began,
      ended: place,
    }
  }
}

/** Splits at commas: all text is in hexadecimal, so that none is inside a string; but arrays and structures have some. */
function splitArguments(text: string): Argument[] {
  const args: Argument[] = []
  let depth = 0
  let from = 0
  for (let at = 0; at <= text.length; at++) {
    const char = text[at]
    // What was written is nearly all of a trace.
    if (char === '"') at = text.indexOf('"', at + 1)
    else if (char === '[' || char === '{') depth++
    else if (char === ']' || char === '}') depth--
    else if (at === text.length || (char === ',' && depth === 0)) {
      args.push(toArgument(text.slice(from, at).trim()))
      from = at + 1
    }
  }
  return args
}

function toArgument(text: string): Argument {
  if (text.endsWith('...')) throw new Error('strace has cut off what was written')
  if (!text.startsWith('"') && !text.startsWith('[{iov_base')) return { text }
  // Every second part is between quotes.
  const quoted = text.split('"').filter((_, i) => i % 2 === 1)
  return { text: '', bytes: Buffer.from(quoted.join('').replaceAll('\\x', ''), 'hex') }
}

/** The descriptor in an argument such as `21<\x2f…>`; `AT_FDCWD` is none. */
export function descriptorOf(argument: Argument | undefined): number {
  return Number.parseInt(argument?.text ?? '', 10)
}

/** The path of the descriptor that is a call's first argument; empty where it has none. */
export function pathOf({ args }: Call): string {
  const shown = /<((?:\\x[0-9a-f]{2})*)>/.exec(args[0]?.text ?? '')?.[1] ?? ''
  return Buffer.from(shown.replaceAll('\\x', ''), 'hex').toString()
}
