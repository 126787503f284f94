import { expect, test } from 'vitest'
import {
  childOptions,
  HEAP_GROWTH_OF_NODE,
  NEW_SPACE_OF_CHILDREN,
  NEW_SPACE_OF_NODE,
  nodeOptions,
  ONE_HELPER_THREAD,
} from '../../src/base/machine/v8-options.ts'

const ALL = [ONE_HELPER_THREAD, NEW_SPACE_OF_NODE, HEAP_GROWTH_OF_NODE]

test.each([
  [[undefined], ALL],
  [['--inspect', '--max-old-space-size=512'], ALL],
  [['--v8-pool-size=4'], [NEW_SPACE_OF_NODE, HEAP_GROWTH_OF_NODE]],
  [['--enable-source-maps --v8_pool_size 2 --heap-growing-percent=80'], [NEW_SPACE_OF_NODE]],
  [['--v8-pool-size=4', '--max_semi_space_size=64'], [HEAP_GROWTH_OF_NODE]],
])('with %j, %j are added for a node', (given, added) => {
  expect(nodeOptions(...given)).toEqual(added)
})

test('a child has one helper thread, and a space for new objects of its own size', () => {
  expect(childOptions(undefined)).toEqual([ONE_HELPER_THREAD, NEW_SPACE_OF_CHILDREN])
  expect(childOptions('--v8-pool-size=2')).toEqual([NEW_SPACE_OF_CHILDREN])
  expect(childOptions('--max-semi-space-size=32', '--v8-pool-size=2')).toEqual([])
})
