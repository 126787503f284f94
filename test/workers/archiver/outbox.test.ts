import { describe, expect, test } from 'vitest'
import { Outbox } from '../../../src/workers/archiver/outbox.ts'
import { FakeClock } from '../../support/fake-clock.ts'

function outbox() {
  const clock = new FakeClock()
  const written: string[] = []
  return { clock, written, box: new Outbox(clock, (bytes) => void written.push(String(bytes))) }
}

describe('Messages to the node', () => {
  test('that nobody waits for go with the next one that somebody waits for, in one write and in order', () => {
    const { box, written } = outbox()
    box.send(Buffer.from('a'))
    box.sendSoon(Buffer.from('b'))
    box.sendSoon(Buffer.from('c'))
    expect(written).toEqual(['a'])
    box.send(Buffer.from('d'))
    box.send(Buffer.from('e'))
    expect(written).toEqual(['a', 'bcd', 'e'])
  })

  test('and without a next one they leave by themselves, once', () => {
    const { box, written, clock } = outbox()
    box.sendSoon(Buffer.from('b'))
    box.sendSoon(Buffer.from('c'))
    clock.advance(1_000)
    expect(written).toEqual(['bc'])
    box.send(Buffer.from('d'))
    clock.advance(1_000)
    expect(written).toEqual(['bc', 'd'])
  })
})
