import { useEffect, useState } from 'preact/hooks'
import { Failure } from '../../parts/failure.tsx'
import { useWork } from '../../parts/use-load.ts'
import { type KvLevel, type KvNode, type LevelSource, loadLevel, merged } from './kv-level.ts'

interface KvTreeProps {
  source: LevelSource
  prefix: string
  /** Another number loads the level again. */
  version: number
  open: string | undefined
  changed: ReadonlySet<string>
  ticked: ReadonlySet<string>
  canTick: boolean
  onOpen: (key: string) => void
  onTick: (key: string, isOn: boolean) => void
  onEmpty?: (isEmpty: boolean) => void
}

/** One level of the keys; each group loads its own level when it is opened. */
export function KvTree(props: KvTreeProps) {
  const { source, prefix, version, onEmpty } = props
  const [levels, setLevels] = useState<readonly KvLevel[]>()
  const load = useWork(async (signal, from: string | undefined, count: number) => {
    const loaded: KvLevel[] = from === undefined ? [] : [...(levels ?? [])]
    let next = from
    for (let n = 0; n < count; n++) {
      const level = await loadLevel(source, prefix, next, signal)
      loaded.push(level)
      next = level.next
      if (next === undefined) break
    }
    setLevels(loaded)
    onEmpty?.(loaded.every(({ nodes }) => nodes.length === 0))
  })
  useEffect(() => {
    load.cancel()
    void load.run(undefined, Math.max(1, levels?.length ?? 1))
  }, [version])
  const next = levels?.at(-1)?.next
  return (
    <>
      <Failure error={load.error} />
      <ul class="tree">
        {merged(levels ?? []).map((node) =>
          node.isGroup ? (
            <Group key={`group ${node.path}`} {...props} node={node} />
          ) : (
            <Leaf key={node.path} {...props} node={node} />
          ),
        )}
        {next !== undefined && (
          <li>
            <button
              type="button"
              class="quiet"
              disabled={load.isRunning}
              onClick={() => void load.run(next, 1)}
            >
              More{prefix !== '' && <span class="off-screen"> of {prefix}</span>}
            </button>
          </li>
        )}
      </ul>
    </>
  )
}

function Group({ node, ...props }: KvTreeProps & { node: KvNode }) {
  const [isOpen, setOpen] = useState(false)
  const { onEmpty: _, ...below } = props
  return (
    <li>
      <button type="button" class="tree-group" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class="tree-label">{node.label}</span>
      </button>
      {isOpen && <KvTree {...below} prefix={node.path} />}
    </li>
  )
}

function Leaf({ node, open, changed, ticked, canTick, onOpen, onTick }: KvTreeProps & { node: KvNode }) {
  return (
    <li class={changed.has(node.path) ? 'leaf changed' : 'leaf'}>
      {canTick && (
        <input
          type="checkbox"
          aria-label={`Select ${node.path}`}
          checked={ticked.has(node.path)}
          onChange={(event) => onTick(node.path, event.currentTarget.checked)}
        />
      )}
      <button
        type="button"
        class="tree-leaf"
        aria-current={open === node.path ? 'true' : undefined}
        title={node.path}
        onClick={() => onOpen(node.path)}
      >
        <span class="tree-label">{node.label === '' ? '(empty)' : node.label}</span>
      </button>
    </li>
  )
}
