import fs from 'node:fs'
import type { LibraryPeer } from './library-peer.ts'
import { fill, WORKS } from './works.ts'

/** A process for each store, so that none shares its heap, its threads and its processor time: the peer's file and a directory. */
const [, , file = '', directory = ''] = process.argv

/** What is asked of it. */
interface Ask {
  work: string
  ms: number
}

const send = (message: object) => process.send?.(message)
try {
  const { peer } = (await import(file)) as { peer: LibraryPeer }
  const version = peer.version()
  fs.mkdirSync(directory, { recursive: true })
  const store = await peer.open(directory)
  await fill(store)
  process.on('message', async ({ work, ms }: Ask) => {
    try {
      const turn = WORKS[work]?.(store, ms)
      send(turn === undefined ? { absent: 'it has no such operation' } : { turn: await turn })
    } catch (error) {
      send({ failed: (error as Error).message })
    }
  })
  process.once('disconnect', () => store.close())
  send({ version })
} catch (error) {
  send({ failed: (error as Error).message.split('\n')[0] ?? '' })
  process.disconnect()
}
