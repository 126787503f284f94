import { execFileSync } from 'node:child_process'
import path from 'node:path'

/** The table of attacks has many rows: here each is short, unless the environment says otherwise. */
const env = { CELLSTORE_BENCH_SECONDS: '2', CELLSTORE_BENCH_ELSEWHERE: '0', ...process.env }

/** Every benchmark, each in a process of its own, one after the other: alone on the machine is how to run it. */
const run = (command: string, args: string[]) => execFileSync(command, args, { stdio: 'inherit', env })

if (process.argv[2] === '--peers') {
  run(process.execPath, [path.join(import.meta.dirname, 'peers', 'run.ts'), ...process.argv.slice(3)])
  process.exit()
}

for (const file of [
  'kv.ts',
  'sql.ts',
  'wal-sync.ts',
  'shared-commits.ts',
  'bodies.ts',
  'http.ts',
  'neighbours.ts',
  'backup.ts',
])
  run(process.execPath, [new URL(file, import.meta.url).pathname])
// The descriptors of an ordinary login.
run('bash', [
  '-c',
  'ulimit -n 4096 && exec "$0" "$1"',
  process.execPath,
  new URL('cells.ts', import.meta.url).pathname,
])
