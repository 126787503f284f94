import { parseJson } from '../src/service/json/exact-json.ts'

/** What the largest bodies cost the event loop to parse exactly, next to JSON.parse of the same. */

const BODY_BYTES = 2_097_152
const ROUNDS = 9

function filled(before: string, element: string, after: string): string {
  const count = Math.floor((BODY_BYTES - before.length - after.length) / (element.length + 1))
  return before + Array(count).fill(element).join(',') + after
}

function fastest(run: () => void): number {
  const times = Array.from({ length: ROUNDS }, () => {
    const began = performance.now()
    run()
    return performance.now() - began
  })
  return Math.min(...times)
}

const BODIES: [what: string, body: string][] = [
  ['a long text', JSON.stringify({ value: 'x'.repeat(BODY_BYTES - 12) })],
  ['empty objects', filled('{"entries":[', '{}', ']}')],
  ['ones', filled('{"params":[', '1', ']}')],
  ['ones, and 16 digits in a text', filled('{"params":["1234567890123456",', '1', ']}')],
  ['ones, and an integer of 19 digits', filled('{"params":[1234567890123456789,', '1', ']}')],
  ['integers of 19 digits', filled('{"params":[', '1234567890123456789', ']}')],
]

console.table(
  BODIES.map(([what, body]) => {
    const bytes = Buffer.from(body)
    const bare = fastest(() => JSON.parse(bytes.toString()))
    const ours = fastest(() => parseJson(bytes))
    return {
      body: what,
      'JSON.parse ms': bare.toFixed(1),
      'exact ms': ours.toFixed(1),
      ratio: (ours / bare).toFixed(2),
    }
  }),
)
