import { expect, test } from 'vitest'
import {
  childOptions,
  nodeOptions,
  ONE_HELPER_THREAD,
  SMALL_NEW_SPACE,
  SMALLER_NEW_SPACE,
} from '../../src/base/v8-options.ts'

const ALL = [ONE_HELPER_THREAD, SMALLER_NEW_SPACE]

test.each([
  [[undefined], ALL],
  [['--inspect', '--max-old-space-size=512'], ALL],
  [['--v8-pool-size=4'], [SMALLER_NEW_SPACE]],
  [['--enable-source-maps --v8_pool_size 2'], [SMALLER_NEW_SPACE]],
  [['--v8-pool-size=4', '--max_semi_space_size=64'], []],
])('with %j, %j are added for a node', (given, added) => {
  expect(nodeOptions(...given)).toEqual(added)
})

test('a child has one helper thread, and a space for new objects of its own size', () => {
  expect(childOptions(undefined)).toEqual([ONE_HELPER_THREAD, SMALL_NEW_SPACE])
  expect(childOptions('--v8-pool-size=2')).toEqual([SMALL_NEW_SPACE])
  expect(childOptions('--max-semi-space-size=32', '--v8-pool-size=2')).toEqual([])
})
