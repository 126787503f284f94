import { useState } from 'preact/hooks'
import { bytesOf, type SqlValue } from '../../../client/index.ts'
import { CopyButton } from '../../parts/copy-button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { bytes, counted } from '../../parts/format.ts'
import { saveFile } from '../../parts/save-file.ts'
import { hexOf, isBlob } from './values.ts'

const TEXT_SHOWN = 120
const BYTES_SHOWN = 16
const BYTES_IN_DIALOG = 65_536

/** A value in a table: all of it if it is short, and a button to the rest if not. */
export function ValueCell({ value, column }: { value: SqlValue; column: string }) {
  const [isOpen, setOpen] = useState(false)
  if (value === null) return <span class="null">NULL</span>
  const text = isBlob(value) ? hexOf(value, BYTES_SHOWN) : String(value)
  if (!isBlob(value) && text.length <= TEXT_SHOWN && !text.includes('\n')) return text
  return (
    <>
      <button type="button" class="value" aria-label={`All of ${column}`} onClick={() => setOpen(true)}>
        {text.slice(0, TEXT_SHOWN).replaceAll('\n', '↵')}
        {text.length > TEXT_SHOWN && '…'}
      </button>
      {isOpen && <WholeValue value={value} column={column} onClose={() => setOpen(false)} />}
    </>
  )
}

function WholeValue(props: { value: SqlValue; column: string; onClose: () => void }) {
  const { value, column, onClose } = props
  const blob = isBlob(value) ? bytesOf(value) : undefined
  const size = blob === undefined ? counted(String(value).length, 'character') : bytes(blob.length)
  return (
    <Dialog title={`${column}: ${size}`} isWide onClose={onClose}>
      {isBlob(value) ? (
        <textarea class="code" readOnly rows={16} aria-label={column} value={hexOf(value, BYTES_IN_DIALOG)} />
      ) : (
        <textarea class="code" readOnly rows={16} aria-label={column} value={String(value)} />
      )}
      <div class="fields">
        <CopyButton label="Copy" text={() => (isBlob(value) ? hexOf(value) : String(value))} />
        <button
          type="button"
          class="quiet"
          onClick={() =>
            saveFile(column, new Blob([(blob as Uint8Array<ArrayBuffer> | undefined) ?? String(value)]))
          }
        >
          Save as a file
        </button>
      </div>
    </Dialog>
  )
}
