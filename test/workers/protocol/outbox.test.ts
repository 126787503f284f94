import { describe, expect, test } from 'vitest'
import { MessageReader } from '../../../src/workers/protocol/messages.ts'
import { Outbox } from '../../../src/workers/protocol/outbox.ts'
import { FakeClock } from '../../support/fake-clock.ts'

function outbox() {
  const clock = new FakeClock()
  const written: string[] = []
  const write = (bytes: Buffer) => {
    let text = ''
    new MessageReader((message) => {
      text += message
    }).push(bytes)
    written.push(text)
  }
  return { clock, written, box: new Outbox<string>(clock, write) }
}

describe('Messages to the node', () => {
  test('that nobody waits for go with the next one that somebody waits for, in one write and in order', () => {
    const { box, written } = outbox()
    box.send('a')
    box.postSoon('b')
    box.post('c')
    expect(written).toEqual(['a'])
    box.send('d')
    box.send('e')
    expect(written).toEqual(['a', 'bcd', 'e'])
  })

  test('and without a next one they leave by themselves, once', () => {
    const { box, written, clock } = outbox()
    box.postSoon('b')
    box.postSoon('c')
    clock.advance(1_000)
    expect(written).toEqual(['bc'])
    box.send('d')
    clock.advance(1_000)
    expect(written).toEqual(['bc', 'd'])
  })

  test('that are long leave at once', () => {
    const { box, written, clock } = outbox()
    box.postSoon('x'.repeat(70_000))
    expect(written).toHaveLength(1)
    expect(clock.nextTimerMs).toBeUndefined()
  })
})
