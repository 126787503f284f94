import { expect, test } from 'vitest'
import { helperThreadOptions, ONE_HELPER_THREAD } from '../../src/base/helper-threads.ts'

test.each([
  [[undefined], true],
  [['--inspect', '--max-old-space-size=512'], true],
  [['--v8-pool-size=4'], false],
  [['--enable-source-maps --v8_pool_size 2'], false],
])('with %j the option is added: %s', (given, isAdded) => {
  expect(helperThreadOptions(...given)).toEqual(isAdded ? [ONE_HELPER_THREAD] : [])
})
