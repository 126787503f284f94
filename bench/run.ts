import { execFileSync } from 'node:child_process'

/** Every benchmark, each in a process of its own, one after the other: alone on the machine is how to run it. */
const run = (command: string, args: string[]) => execFileSync(command, args, { stdio: 'inherit' })

for (const file of ['kv.ts', 'wal-sync.ts', 'bodies.ts', 'http.ts', 'neighbours.ts', 'backup.ts'])
  run(process.execPath, [new URL(file, import.meta.url).pathname])
// The descriptors of an ordinary login.
run('bash', [
  '-c',
  'ulimit -n 4096 && exec "$0" "$1"',
  process.execPath,
  new URL('cells.ts', import.meta.url).pathname,
])
