import { useEffect, useRef, useState } from 'preact/hooks'
import { Empty, Failure } from '../../parts/failure.tsx'
import { Field, Tick } from '../../parts/field.tsx'
import { useLoad, useWork } from '../../parts/use-load.ts'
import { useSession } from '../../parts/use-session.ts'
import type { Editor } from './code-editor.ts'
import { remember } from './history.ts'
import { HistoryMenu } from './history-menu.tsx'
import { paramsOf } from './params.ts'
import { ResultView } from './result-view.tsx'
import { KV_VIEW, loadSchema } from './schema.ts'
import { SchemaTree } from './schema-tree.tsx'
import { type Result, runScript, ScriptFailed, statementsIn } from './script.ts'
import { SqlEditor } from './sql-editor.tsx'

const EXAMPLE = `CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT);
INSERT INTO notes (text) VALUES ('first'), ('second');
SELECT * FROM notes`

interface SqlPageProps {
  id: string
  sizeBytes: number | undefined
  /** The cell may have grown. */
  onChanged: () => void
}

/** Statements in one cell. */
export function SqlPage({ id, sizeBytes, onChanged }: SqlPageProps) {
  const { client, may } = useSession()
  const editor = useRef<Editor>(undefined)
  const [text, setText] = useState('')
  const [params, setParams] = useState('')
  const [asBatch, setBatch] = useState(false)
  const [results, setResults] = useState<readonly Result[]>([])
  const schema = useLoad((signal) => loadSchema(client, id, signal), [id])
  useEffect(() => {
    editor.current?.setTables(tablesOf(schema.data))
  }, [schema.data])

  const work = useWork(async (signal, kind: 'run' | 'explain') => {
    const all = editor.current?.text() ?? ''
    const selected = editor.current?.selected() ?? { text: '', from: 0 }
    const isPart = selected.text.trim() !== ''
    const chosen = isPart ? selected.text : all
    const offset = isPart ? selected.from : 0
    editor.current?.mark(undefined)
    setResults([])
    const run = {
      id,
      params: paramsOf(params),
      asBatch: asBatch && kind === 'run',
      signal,
      text: kind === 'run' ? chosen : explained(chosen),
    }
    let changed = false
    try {
      await runScript(client, {
        ...run,
        onResult: (result) => {
          changed ||= result.columns.length === 0 || result.changes > 0
          setResults((last) => [...last, result])
        },
      })
    } catch (error) {
      if (error instanceof ScriptFailed && kind === 'run') {
        const { from, to } = error.fault
        editor.current?.mark({ from: from + offset, to: to + offset })
      }
      throw error
    } finally {
      if (kind === 'run') remember(id, chosen.trim())
      if (changed) {
        schema.reload()
        onChanged()
      }
    }
  })
  const write = (sql: string) => {
    editor.current?.setText(sql)
    setText(sql)
    editor.current?.focus()
  }
  const isEmpty = text.trim() === ''
  return (
    <div class="sql">
      <SchemaTree
        id={id}
        schema={schema}
        sizeBytes={sizeBytes}
        onPick={(sql) => {
          write(sql)
          void work.run('run')
        }}
      />
      <div class="sql-main">
        <SqlEditor
          label="SQL"
          text={text}
          onChange={setText}
          onRun={() => void work.run('run')}
          onOpen={(opened) => {
            editor.current = opened
            opened.setTables(tablesOf(schema.data))
          }}
        />
        <div class="fields sql-buttons">
          <button
            type="button"
            class="primary"
            title="Ctrl+Enter, in the editor"
            disabled={isEmpty || work.isRunning}
            onClick={() => void work.run('run')}
          >
            Run
          </button>
          <button type="button" disabled={isEmpty || work.isRunning} onClick={() => void work.run('explain')}>
            Explain
          </button>
          {work.isRunning && (
            <button type="button" onClick={work.cancel}>
              Cancel
            </button>
          )}
          <Tick label="All or none" isOn={asBatch} onChange={setBatch} />
          <HistoryMenu id={id} onPick={write} />
        </div>
        <details class="params">
          <summary>Parameters{params.trim() !== '' && ' (set)'}</summary>
          <Field
            label="Parameters, as JSON"
            value={params}
            onInput={setParams}
            isCode
            lines={2}
            placeholder='["Ann", 42] or {"name": "Ann"}'
            hint='An array for ?, an object for :name. Bytes are {"type": "blob", "base64": "…"}.'
          />
        </details>
        <div aria-live="polite" class="results">
          {results.map((result, at) => (
            <ResultView key={at} result={result} at={at} />
          ))}
          {work.isRunning && <p class="muted">Running…</p>}
          <ScriptFailure error={work.error} />
          {results.length === 0 && !work.isRunning && work.error === undefined && (
            <Empty title="Write SQL, and run it with Ctrl+Enter.">
              <p>Several statements end with semicolons. If a part is selected, only that runs.</p>
              {schema.data?.length === 0 && may.write && (
                <p>
                  <button type="button" class="quiet" onClick={() => write(EXAMPLE)}>
                    Write an example
                  </button>
                </p>
              )}
            </Empty>
          )}
        </div>
      </div>
    </div>
  )
}

/** What failed, with the line; the editor marks the place. */
function ScriptFailure({ error }: { error: unknown }) {
  if (!(error instanceof ScriptFailed)) return <Failure error={error} />
  const { line, error: cause } = error.fault
  return (
    <Failure error={cause}>
      <p class="small">Line {line}</p>
    </Failure>
  )
}

function explained(text: string): string {
  return statementsIn(text)
    .map(({ sql }) => (/^explain\b/i.test(sql) ? sql : `EXPLAIN QUERY PLAN ${sql}`))
    .join(';\n')
}

function tablesOf(schema: { name: string; columns: { name: string }[] }[] | undefined) {
  const tables =
    schema?.map(({ name, columns }) => [name, columns.map((column) => column.name)] as const) ?? []
  return Object.fromEntries([...tables, [KV_VIEW.name, KV_VIEW.columns]])
}
