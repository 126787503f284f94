import { expect, test } from 'vitest'
import { dropUnsetVariables, refuseUnknownVariables } from '../../src/cli/environment.ts'

test('a misspelt variable is refused with the nearest name', () => {
  expect(() => refuseUnknownVariables({ CELLSTORE_DATADIR: 'x' })).toThrow(
    /CELLSTORE_DATADIR.*CELLSTORE_DATA_DIR/,
  )
})

test("a duration for the shell's history is refused: it is meant for what --history says", () => {
  expect(() => refuseUnknownVariables({ CELLSTORE_HISTORY: '30d' })).toThrow(/CELLSTORE_KEEP_HISTORY/)
  refuseUnknownVariables({ CELLSTORE_HISTORY: '/root/30d', CELLSTORE_KEEP_HISTORY: '30d' })
})

test('empty variables, and those that Kubernetes sets for a service called cellstore, count as not set', () => {
  const environment = {
    CELLSTORE_HOST: '',
    CELLSTORE_PORT: 'tcp://10.0.0.1:8787',
    CELLSTORE_SERVICE_HOST: '10.0.0.1',
    CELLSTORE_SERVICE_PORT: '8787',
    CELLSTORE_SERVICE_PORT_HTTP: '8787',
    CELLSTORE_PORT_8787_TCP: 'tcp://10.0.0.1:8787',
    CELLSTORE_PORT_8787_TCP_PROTO: 'tcp',
    CELLSTORE_PORT_8787_TCP_ADDR: '10.0.0.1',
    CELLSTORE_DATA_DIR: '/data',
    CELLSTORE_HISTORY: '',
    PORT: '1',
  }
  dropUnsetVariables(environment)
  // An empty history says something: there shall be none.
  expect(environment).toEqual({ CELLSTORE_DATA_DIR: '/data', CELLSTORE_HISTORY: '', PORT: '1' })
  refuseUnknownVariables(environment)
})
