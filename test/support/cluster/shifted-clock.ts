/**
 * Loaded by `--import` before a process of a test: its wall clock is set apart, as the file says that its URL names. The process and
 * those that it starts look into the file again all the time, so that a clock can also jump.
 */
import fs from 'node:fs'

const LOOK_EVERY_MS = 50
const file = new URL(import.meta.url).searchParams.get('file') as string
const RealDate = Date
const monotonicNow = performance.now.bind(performance)

let shiftMs = 0
let lookedAt = Number.NEGATIVE_INFINITY

function now(): number {
  if (monotonicNow() - lookedAt >= LOOK_EVERY_MS) {
    lookedAt = monotonicNow()
    shiftMs = Number(fs.readFileSync(file, 'utf8'))
  }
  return RealDate.now() + shiftMs
}

globalThis.Date = new Proxy(RealDate, {
  construct: (target, given, self) => Reflect.construct(target, given.length === 0 ? [now()] : given, self),
  apply: () => new RealDate(now()).toString(),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
})
