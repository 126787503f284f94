import type { IncomingMessage } from 'node:http'
import { PassThrough } from 'node:stream'
import { setImmediate as turnOfTheLoop } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { PIECES_PER_TURN, READ_BYTES, ReadPace } from '../../src/http/read-pace.ts'

/** A body of which a piece comes whenever it is read. */
class Body {
  readonly request = new PassThrough()
  mayRead = true
  pieces = 0
  readonly #pace: ReadPace

  constructor(account: string) {
    const request = this.request as unknown as IncomingMessage
    this.#pace = new ReadPace(request, account, () => this.mayRead)
    this.request.pause()
    this.request.on('resume', () => {
      this.pieces++
      this.#pace.took(READ_BYTES)
    })
  }

  begin(): void {
    this.#pace.took(READ_BYTES)
  }
}

const bodies = (count: number, account: string) => Array.from({ length: count }, () => new Body(account))
const piecesOf = (all: readonly Body[]) => all.reduce((sum, { pieces }) => sum + pieces, 0)

function begin(all: readonly Body[]): void {
  for (const each of all) each.begin()
}

function end(all: readonly Body[]): void {
  for (const each of all) each.mayRead = false
}

test('one turn of the loop reads a few pieces, however many bodies are on their way, and all of them go on', async () => {
  const all = bodies(5 * PIECES_PER_TURN, 'a')
  begin(all)
  for (let turn = 0, before = 0; turn < 10; turn++) {
    await turnOfTheLoop()
    const now = piecesOf(all)
    expect(now - before).toBeLessThanOrEqual(PIECES_PER_TURN)
    before = now
  }
  expect(all.map(({ pieces }) => pieces)).not.toContain(0)
  end(all)
})

test('accounts take turns: a body does not wait for all those of another account', async () => {
  const many = bodies(20 * PIECES_PER_TURN, 'a')
  const other = new Body('b')
  begin([...many, other])
  for (let turn = 0; turn < 10; turn++) await turnOfTheLoop()
  expect(other.pieces).toBeGreaterThanOrEqual(8)
  end([...many, other])
})

test('what nobody reads any more takes no turn', async () => {
  const over = bodies(10 * PIECES_PER_TURN, 'a')
  const all = bodies(PIECES_PER_TURN, 'a')
  begin([...over, ...all])
  end(over)
  // Two, unless a turn takes too long: with the others before them it would be eleven.
  for (let turn = 0; turn < 2 || (turn < 8 && all.some(({ pieces }) => pieces === 0)); turn++)
    await turnOfTheLoop()
  expect(piecesOf(over)).toBe(0)
  expect(all.map(({ pieces }) => pieces)).not.toContain(0)
  end(all)
})

test('of a body in pieces of one byte, a turn takes as many as cost as much as a long piece', async () => {
  const request = new PassThrough()
  let resumed = 0
  let pieces = 0
  const pace = new ReadPace(request as unknown as IncomingMessage, 'a', () => true)
  request.pause().on('resume', () => resumed++)
  while (resumed === 0 && pieces < READ_BYTES) {
    pace.took(1)
    if (++pieces % 8 === 0 && pieces > 64) await turnOfTheLoop()
  }
  expect(pieces).toBeLessThanOrEqual(80)
})
