import { median, report } from '../side-by-side.ts'
import { BenchCluster, type BenchNode } from './bench-cluster.ts'
import { ask, must } from './cells.ts'

const COUNT = 100

/** Keys that all nodes know are revoked at each of them in turn; then no node admits them. */
export async function revocation(): Promise<void> {
  const cluster = await BenchCluster.start()
  try {
    const times: number[] = []
    for (let n = 0; n < COUNT; n++) {
      const node = cluster.node(n % cluster.nodes.length)
      const { id, key } = await must<{ id: string; key: string }>(node, 'POST', '/v1/api-keys', { body: {} })
      const askAll = () =>
        Promise.all(
          cluster.nodes.map((each: BenchNode) => ask({ ...each, key }, 'GET', '/v1/databases?limit=1')),
        )
      for (const { status } of await askAll()) if (status !== 200) throw new Error(`A new key: ${status}`)
      const begin = performance.now()
      await must(node, 'DELETE', `/v1/api-keys/${id}`)
      times.push(performance.now() - begin)
      for (const { status } of await askAll()) if (status !== 401) throw new Error(`A revoked key: ${status}`)
    }
    times.sort((a, b) => a - b)
    const middle = median(times)
    report({
      what: `revocation of a key, three nodes, ${COUNT} keys: median`,
      ours: `${middle.toFixed(1)} ms`,
      theirs: `the slowest ${times.at(-1)?.toFixed(1)} ms`,
      ratio: 50 / middle,
      aim: '≤ 50 ms',
      met: middle <= 50,
    })
  } finally {
    await cluster.stop()
  }
}
