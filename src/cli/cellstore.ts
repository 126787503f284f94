#!/usr/bin/env node
// The command's first file. It must parse and run on an old Node.js, so it imports nothing that needs a new one until it
// knows the version. The rest of the command is a chunk of its own, which is loaded after that.
import { COLLECTOR_FLAG } from '../base/collector.ts'
import { isSupportedNode } from '../base/runtime.ts'

const EXIT_MS_MAX = 2_000

if (isSupportedNode(process.versions.node)) {
  if (process.argv[2] === 'serve') beginAgainWith(COLLECTOR_FLAG)
  const { main } = await import('./main.ts')
  process.exitCode = await main(process.argv.slice(2))
  // A command that is done ends, even if a library still holds something open.
  setTimeout(() => process.exit(), EXIT_MS_MAX).unref()
} else {
  process.stderr.write(
    `cellstore needs Node.js 22.15 or newer; this is ${process.versions.node}. Install a newer Node.js. In a clone of the project you can also run \`npm ci\`, which installs one, and then \`npm start\` or \`npm run cellstore -- <command>\`.\n`,
  )
  process.exitCode = 1
}

/** V8 takes the flag only at the start of a process. This one stays the same for the system: its id, its parent, its files. */
function beginAgainWith(flag: string): void {
  if (process.execArgv.includes(flag)) return
  try {
    process.execve?.(
      process.execPath,
      [process.execPath, ...process.execArgv, flag, ...process.argv.slice(1)],
      process.env,
    )
  } catch {
    // Windows has no such call. A node without the flag is slower beside large requests, and nothing else.
  }
}
