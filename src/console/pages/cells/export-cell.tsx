import { useEffect, useState } from 'preact/hooks'
import { Dialog } from '../../parts/dialog.tsx'
import { bytes } from '../../parts/format.ts'
import { Progress } from '../../parts/progress.tsx'
import { saveFile } from '../../parts/save-file.ts'
import { useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import type { NamedCell } from './cell-dialogs.tsx'

/** Reads the cell as one file, and hands it to the browser's downloads. */
export function ExportCell({ cell, onClose }: { cell: NamedCell; onClose: () => void }) {
  const { client } = useSession()
  const [received, setReceived] = useState(0)
  const [total, setTotal] = useState<number>()
  const [isDone, setDone] = useState(false)
  const work = useWork(async (signal) => {
    const { size_bytes } = await client.getCell({ id: cell.id }, { signal })
    setTotal(size_bytes)
    const pieces: Uint8Array<ArrayBuffer>[] = []
    let count = 0
    for await (const piece of piecesOf(await client.exportCell({ id: cell.id }, { signal }))) {
      pieces.push(piece)
      count += piece.length
      setReceived(count)
    }
    saveFile(`${cell.name ?? cell.id}.db`, new Blob(pieces, { type: 'application/vnd.sqlite3' }))
    setDone(true)
  })
  useEffect(() => {
    void work.run()
  }, [])
  return (
    <Dialog title={`Export ${cell.name ?? cell.id}`} error={work.error} onClose={onClose}>
      {work.isRunning && (
        <Progress
          label={`${bytes(received)} received`}
          done={received}
          total={total}
          onCancel={() => {
            work.cancel()
            onClose()
          }}
        />
      )}
      {isDone && (
        <p role="status">{bytes(received)} are in the downloads of this browser: one SQLite file.</p>
      )}
    </Dialog>
  )
}

/** Not every browser iterates over streams. */
async function* piecesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<Uint8Array<ArrayBuffer>> {
  const reader = stream.getReader()
  try {
    for (;;) {
      const { done, value } = await reader.read()
      if (done) return
      yield value as Uint8Array<ArrayBuffer>
    }
  } finally {
    await reader.cancel().catch(() => {})
  }
}
