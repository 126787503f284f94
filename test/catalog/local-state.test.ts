import fs from 'node:fs'
import path from 'node:path'
import Database from 'better-sqlite3'
import { describe, expect, test } from 'vitest'
import { LocalState } from '../../src/catalog/local-state.ts'
import { tempDirectory } from '../support/temp-directory.ts'

function place(): string {
  return path.join(tempDirectory(), 'local.db')
}

/** As after the machine went down: nothing says that it was closed, and it is another run of the machine. */
function loseMachine(file: string): void {
  const connection = new Database(file)
  connection.exec(
    "UPDATE state SET value = 'no' WHERE key = 'clean'; UPDATE state SET value = 'other' WHERE key = 'boot'",
  )
  connection.close()
}

describe('what only this machine knows', () => {
  test('is there after it was closed and opened', () => {
    const file = place()
    const state = new LocalState(file)
    state.set('k', 'v')
    state.set('k', 'w')
    state.close()
    const again = new LocalState(file)
    expect([again.get('k'), again.get('other'), fs.statSync(file).mode & 0o777]).toEqual([
      'w',
      undefined,
      0o600,
    ])
    again.close()
  })

  test('is complete after a close and after a kill, and not after the machine went down', () => {
    const file = place()
    const first = new LocalState(file)
    expect(first.complete).toBe(false)
    first.markComplete()
    first.close()
    const second = new LocalState(file)
    expect(second.complete).toBe(true)
    // A kill: nothing is closed, but no row is lost either.
    const third = new LocalState(file)
    expect(third.complete).toBe(true)
    third.close()
    loseMachine(file)
    const fourth = new LocalState(file)
    expect(fourth.complete).toBe(false)
    fourth.close()
  })

  test('stays incomplete until every cell was looked at, however often it is opened, closed or killed meanwhile', () => {
    const file = place()
    for (let i = 0; i < 3; i++) {
      const state = new LocalState(file)
      expect(state.complete).toBe(false)
      if (i % 2 === 0) state.close()
    }
    const looked = new LocalState(file)
    looked.markComplete()
    looked.close()
    const after = new LocalState(file)
    expect(after.complete).toBe(true)
    after.close()
  })

  test('says whether the last process closed it', () => {
    const file = place()
    const wasLeftOpen = (close: boolean) => {
      const state = new LocalState(file)
      state.markComplete()
      if (close) state.close()
      return state.wasLeftOpen
    }
    expect([wasLeftOpen(true), wasLeftOpen(false), wasLeftOpen(true), wasLeftOpen(true)]).toEqual([
      false,
      false,
      true,
      false,
    ])
  })

  test('starts empty when its file is damaged, and is then incomplete', () => {
    const file = place()
    const state = new LocalState(file)
    state.set('k', 'v')
    state.markComplete()
    state.close()
    fs.writeFileSync(file, 'no database at all, but long enough to be looked at'.repeat(200))
    const again = new LocalState(file)
    expect([again.get('k'), again.complete]).toEqual([undefined, false])
    again.set('k', 'w')
    again.close()
  })

  test('is not thrown away where another program only holds a lock', () => {
    const file = place()
    const state = new LocalState(file)
    state.set('k', 'v')
    state.close()
    const foreign = new Database(file)
    foreign.exec('BEGIN EXCLUSIVE')
    expect(() => new LocalState(file)).toThrow('locked')
    foreign.exec('ROLLBACK')
    foreign.close()
    const again = new LocalState(file)
    expect(again.get('k')).toBe('v')
    again.close()
  })

  test('of another object store is dropped', () => {
    const file = place()
    const first = new LocalState(file, 's3://a')
    first.set('k', 'v')
    first.close()
    const same = new LocalState(file, 's3://a')
    expect([same.get('k'), same.movedFrom]).toEqual(['v', undefined])
    same.close()
    const other = new LocalState(file, 's3://b')
    expect([other.get('k'), other.movedFrom, other.complete]).toEqual([undefined, 's3://a', false])
    other.close()
    const still = new LocalState(file, 's3://b')
    expect(still.movedFrom).toBeUndefined()
    still.close()
  })
})
